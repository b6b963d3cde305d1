package dev.esker.infinispan;

import dev.esker.Batch;
import dev.esker.Esker;
import dev.esker.EskerException;
import dev.esker.EskerIterator;
import dev.esker.KeyRange;
import dev.esker.Options;
import io.reactivex.rxjava3.core.Flowable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.infinispan.commons.configuration.ConfiguredBy;
import org.infinispan.commons.marshall.Marshaller;
import org.infinispan.commons.time.TimeService;
import org.infinispan.commons.util.IntSet;
import org.infinispan.commons.util.IntSets;
import org.infinispan.distribution.ch.KeyPartitioner;
import org.infinispan.persistence.PersistenceUtil;
import org.infinispan.persistence.spi.InitializationContext;
import org.infinispan.persistence.spi.MarshallableEntry;
import org.infinispan.persistence.spi.MarshallableEntryFactory;
import org.infinispan.persistence.spi.MarshalledValue;
import org.infinispan.persistence.spi.NonBlockingStore;
import org.infinispan.persistence.spi.PersistenceException;
import org.infinispan.util.concurrent.BlockingManager;
import org.reactivestreams.Publisher;

/**
 * A store for the entries of a cache, each with its segment. An entry and the note of its expiry are
 * written as one. A killed process loses no write that returned.
 *
 * @param <K> the keys of the cache
 * @param <V> its values
 */
@ConfiguredBy(EskerStoreConfiguration.class)
public final class EskerStore<K, V> implements NonBlockingStore<K, V> {
    private static final int BUFFERED = 128;

    private EskerStoreConfiguration configuration;
    private Path path;
    private volatile Esker db;
    private Marshaller marshaller;
    private TimeService time;
    private KeyPartitioner partitioner;
    private MarshallableEntryFactory<K, V> factory;
    private BlockingManager blocking;
    private int segments;

    /** Creates it; Infinispan calls this. */
    public EskerStore() {}

    @Override
    public CompletionStage<Void> start(InitializationContext context) {
        configuration = context.getConfiguration();
        marshaller = context.getPersistenceMarshaller();
        time = context.getTimeService();
        partitioner = context.getKeyPartitioner();
        factory = context.getMarshallableEntryFactory();
        blocking = context.getBlockingManager();
        segments = configuration.segmented()
                ? context.getCache().getCacheConfiguration().clustering().hash().numSegments()
                : 1;
        path = PersistenceUtil.getQualifiedLocation(context.getGlobalConfiguration(), configuration.location(),
                context.getCache().getName(), "esker");
        return blocking.runBlocking(this::open, "esker-start");
    }

    private void open() {
        Options options = SharedRuntime.acquire(configuration.properties());
        try {
            Files.createDirectories(path.getParent());
            db = Esker.open(path, options);
        } catch (IOException failed) {
            SharedRuntime.release();
            throw new UncheckedIOException(failed);
        } catch (EskerException failed) {
            SharedRuntime.release();
            throw new PersistenceException(failed.getMessage(), failed);
        }
    }

    @Override
    public CompletionStage<Void> stop() {
        return blocking.runBlocking(this::close, "esker-stop");
    }

    /** Closes the store once, also if two threads stop it. */
    private synchronized void close() {
        Esker open = db;
        if (open != null && !open.isClosed()) {
            open.close();
            SharedRuntime.release();
        }
    }

    @Override
    public CompletionStage<Void> destroy() {
        return blocking.runBlocking(() -> {
            close();
            Esker.destroy(path);
        }, "esker-destroy");
    }

    @Override
    public Set<Characteristic> characteristics() {
        return EnumSet.of(Characteristic.BULK_READ, Characteristic.EXPIRATION, Characteristic.SEGMENTABLE);
    }

    @Override
    public CompletionStage<Boolean> isAvailable() {
        return supply(() -> !db.isClosed() && Files.isDirectory(path));
    }

    private <R> CompletionStage<R> supply(Supplier<R> body) {
        return blocking.supplyBlocking(() -> {
            try {
                return body.get();
            } catch (EskerException failed) {
                throw new PersistenceException(failed.getMessage(), failed);
            }
        }, "esker");
    }

    private CompletionStage<Void> run(Runnable body) {
        return supply(() -> {
            body.run();
            return null;
        });
    }

    private byte[] place(int segment, Object key) {
        return Places.entry(configuration.segmented() ? segment : 0, marshalled(key));
    }

    private byte[] marshalled(Object object) {
        try {
            return marshaller.objectToByteBuffer(object);
        } catch (IOException failed) {
            throw new PersistenceException(failed);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new PersistenceException(interrupted);
        }
    }

    @SuppressWarnings("unchecked")
    private <T> T unmarshalled(byte[] bytes) {
        try {
            return (T) marshaller.objectFromByteBuffer(bytes);
        } catch (IOException | ClassNotFoundException failed) {
            throw new PersistenceException(failed);
        }
    }

    /** Returns the entry at a place; null if it is expired. */
    private MarshallableEntry<K, V> entry(byte[] place, byte[] value, long now) {
        MarshalledValue found = unmarshalled(value);
        MarshallableEntry<K, V> entry = factory.create(unmarshalled(Places.keyOfEntry(place)), found);
        return entry.isExpired(now) ? null : entry;
    }

    @Override
    public CompletionStage<MarshallableEntry<K, V>> load(int segment, Object key) {
        return supply(() -> {
            byte[] place = place(segment, key);
            byte[] value = db.get(place);
            return value == null ? null : entry(place, value, time.wallClockTime());
        });
    }

    @Override
    public CompletionStage<Boolean> containsKey(int segment, Object key) {
        return load(segment, key).thenApply(entry -> entry != null);
    }

    @Override
    public CompletionStage<Void> write(int segment, MarshallableEntry<? extends K, ? extends V> entry) {
        return run(() -> db.write(add(new Batch(), segment, entry)));
    }

    private Batch add(Batch batch, int segment, MarshallableEntry<? extends K, ? extends V> entry) {
        byte[] key = marshalled(entry.getKey());
        int of = configuration.segmented() ? segment : 0;
        batch.put(Places.entry(of, key), marshalled(entry.getMarshalledValue()));
        if (entry.expiryTime() > -1) {
            batch.put(Places.expiry(entry.expiryTime(), of, key), new byte[0]);
        }
        return batch;
    }

    @Override
    public CompletionStage<Boolean> delete(int segment, Object key) {
        return supply(() -> db.remove(place(segment, key)));
    }

    @Override
    public CompletionStage<Void> addSegments(IntSet added) {
        return run(() -> { });
    }

    @Override
    public CompletionStage<Void> removeSegments(IntSet removed) {
        return run(() -> {
            Batch batch = new Batch();
            removed.forEach((int segment) -> batch.deleteRange(Places.segment(segment), Places.segment(segment + 1)));
            db.write(batch);
        });
    }

    @Override
    public CompletionStage<Void> clear() {
        return run(() -> db.deleteRange(Places.start(), Places.end()));
    }

    @Override
    public CompletionStage<Void> batch(int publishers, Publisher<SegmentedPublisher<Object>> removed,
            Publisher<SegmentedPublisher<MarshallableEntry<K, V>>> written) {
        // Infinispan emits only when both publishers, and all segments of each, have subscribers.
        Flowable<Consumer<Batch>> removals = Flowable.fromPublisher(removed).flatMap(segment -> Flowable
                .fromPublisher(segment).map(key -> batch -> batch.delete(place(segment.getSegment(), key))), publishers);
        Flowable<Consumer<Batch>> writes = Flowable.fromPublisher(written).flatMap(segment -> Flowable
                .fromPublisher(segment).map(entry -> batch -> add(batch, segment.getSegment(), entry)), publishers);
        CompletionStage<List<Consumer<Batch>>> operations =
                Flowable.merge(removals, writes).toList().toCompletionStage();
        return operations.thenCompose(all -> all.isEmpty() ? run(() -> { }) : run(() -> {
            Batch batch = new Batch();
            all.forEach(operation -> operation.accept(batch));
            db.write(batch);
        }));
    }

    @Override
    public CompletionStage<Long> size(IntSet wanted) {
        return Flowable.fromPublisher(publishKeys(wanted, null)).count().toCompletionStage();
    }

    @Override
    public CompletionStage<Long> approximateSize(IntSet wanted) {
        if (wanted != null && !configuration.segmented()) {
            return size(wanted);
        }
        return supply(() -> {
            long count = 0;
            for (int segment : segmentsOf(wanted).toIntArray()) {
                try (EskerIterator pairs = db.iterator(range(segment))) {
                    for (pairs.seekToFirst(); pairs.isValid(); pairs.next()) {
                        count++;
                    }
                }
            }
            return count;
        });
    }

    private static KeyRange range(int segment) {
        return KeyRange.of(Places.segment(segment), Places.segment(segment + 1));
    }

    private IntSet segmentsOf(IntSet wanted) {
        return wanted == null || !configuration.segmented() ? IntSets.immutableRangeSet(segments) : wanted;
    }

    @Override
    public Publisher<K> publishKeys(IntSet wanted, Predicate<? super K> filter) {
        return Flowable.fromPublisher(publishEntries(wanted, filter, false)).map(MarshallableEntry::getKey);
    }

    @Override
    public Publisher<MarshallableEntry<K, V>> publishEntries(IntSet wanted, Predicate<? super K> filter,
            boolean includeValues) {
        boolean checksSegment = wanted != null && !configuration.segmented();
        Predicate<MarshallableEntry<K, V>> isWanted = entry -> (filter == null || filter.test(entry.getKey()))
                && (!checksSegment || wanted.contains(partitioner.getSegment(entry.getKey())));
        Flowable<List<MarshallableEntry<K, V>>> parts = Flowable.fromIterable(segmentsOf(wanted))
                .concatMap(segment -> entriesOf(segment, isWanted)).buffer(BUFFERED);
        return Flowable.fromPublisher(blocking.blockingPublisher(parts)).concatMap(Flowable::fromIterable);
    }

    /** Returns the wanted entries of a segment. Each subscription reads as of its own moment. */
    private Flowable<MarshallableEntry<K, V>> entriesOf(int segment, Predicate<MarshallableEntry<K, V>> isWanted) {
        return Flowable.generate(() -> {
            EskerIterator pairs = db.iterator(range(segment));
            pairs.seekToFirst();
            return pairs;
        }, (pairs, emitter) -> {
            long now = time.wallClockTime();
            for (; pairs.isValid(); pairs.next()) {
                MarshallableEntry<K, V> entry = entry(pairs.key(), pairs.value(), now);
                if (entry != null && isWanted.test(entry)) {
                    pairs.next();
                    emitter.onNext(entry);
                    return;
                }
            }
            emitter.onComplete();
        }, EskerIterator::close);
    }

    @Override
    public Publisher<MarshallableEntry<K, V>> purgeExpired() {
        Flowable<List<MarshallableEntry<K, V>>> parts = Flowable.generate(emitter -> {
            List<MarshallableEntry<K, V>> purged = purgePart(time.wallClockTime());
            if (purged == null) {
                emitter.onComplete();
            } else {
                emitter.onNext(purged);
            }
        });
        return Flowable.fromPublisher(blocking.blockingPublisher(parts)).concatMap(Flowable::fromIterable);
    }

    /**
     * Removes some entries that have expired, and their notes. Returns the entries, or null if there is no
     * note any more. An entry that was written again since has a later note.
     */
    private List<MarshallableEntry<K, V>> purgePart(long now) {
        List<byte[]> notes = new ArrayList<>();
        try (EskerIterator pairs = db.iterator(KeyRange.of(Places.expiryStart(0), Places.expiryStart(now + 1)))) {
            for (pairs.seekToFirst(); pairs.isValid() && notes.size() < BUFFERED; pairs.next()) {
                notes.add(pairs.key());
            }
        }
        if (notes.isEmpty()) {
            return null;
        }
        return db.transact(dev.esker.TransactionOptions.DEFAULT, transaction -> {
            List<MarshallableEntry<K, V>> purged = new ArrayList<>();
            for (byte[] note : notes) {
                byte[] place = Places.entryOfExpiry(note);
                byte[] value = transaction.getForUpdate(place);
                if (value != null && entry(place, value, now) == null) {
                    MarshalledValue old = unmarshalled(value);
                    purged.add(factory.create(unmarshalled(Places.keyOfEntry(place)), old));
                    transaction.delete(place);
                }
                transaction.delete(note);
            }
            return purged;
        });
    }
}
