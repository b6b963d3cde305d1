package dev.esker.kafka.streams;

import dev.esker.Batch;
import dev.esker.Esker;
import dev.esker.EskerException;
import dev.esker.KeyRange;
import dev.esker.Keyspace;
import dev.esker.Options;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.PositionSerde;

/**
 * The Esker store of one state store: its pairs in the keyspace {@code default}; offsets of
 * changelogs, the Position and the state of the store in the keyspace {@code meta}.
 *
 * <p>Writes are direct, or, if a producer reports its transactions ({@link Transactions}), wait in an
 * overlay until the transaction was committed. Then one batch has the writes, the offset and the
 * Position. So after a kill a store holds exactly what was committed up to its offset.
 *
 * <p>A store that writes directly under exactly-once may hold writes that were never committed. It is
 * marked while it is open. Finding the mark, the next opening throws {@link TaskCorruptedException},
 * and Kafka restores the task.
 */
final class Space {
    /** Marks a deleted key in the overlay. */
    static final byte[] DELETED = new byte[0];

    private static final byte[] POSITION = {'p'};
    private static final byte[] STATE = {'s'};
    private static final byte[] CLOSED = {0};
    private static final byte[] OPEN_DIRECT = {1};
    private static final byte[] OPEN_TRANSACTIONAL = {2};
    private static final NavigableMap<byte[], byte[]> EMPTY =
            Collections.unmodifiableNavigableMap(new TreeMap<>(Arrays::compareUnsigned));

    private final String name;
    private final Esker db;
    private final Keyspace meta;
    private final boolean isTransactional;
    private final TopicPartition changelog;
    private volatile ConcurrentSkipListMap<byte[], byte[]> overlay = newOverlay();
    private volatile boolean isEmptyOverlay = true;
    private boolean isCollecting;
    private final LongAdder readBytes = new LongAdder();
    /** Ranges to delete with the overlay: the end of each by its start. */
    private final NavigableMap<byte[], byte[]> expired = new TreeMap<>(Arrays::compareUnsigned);
    private volatile boolean isOpen = true;
    /** The Position of the state store, which grows with its writes. */
    private final Position current;

    private Space(String name, Esker db, boolean isTransactional, TopicPartition changelog) {
        this.name = name;
        this.db = db;
        this.isTransactional = isTransactional;
        this.changelog = changelog;
        meta = db.keyspace("meta");
        byte[] bytes = meta.get(POSITION);
        current = bytes == null ? Position.emptyPosition() : PositionSerde.deserialize(ByteBuffer.wrap(bytes));
    }

    private static ConcurrentSkipListMap<byte[], byte[]> newOverlay() {
        return new ConcurrentSkipListMap<>(Arrays::compareUnsigned);
    }

    /** Opens the store of a task, below its directory. */
    static Space open(String name, StateStoreContext context) {
        return open(name, context, Transactions.changelogOf(name, context));
    }

    /**
     * Refuses a task's directory with offsets that are not of this store. Kafka up to 4.2 keeps them in a file of
     * the task, and 4.3 commits them to whichever store has the changelog now: a store without those records
     * would never restore them.
     */
    private static void refuseForeignOffsets(File task, String name) {
        File rocksdb = new File(new File(task, "rocksdb"), name);
        // Windows and sessions have their segments in a directory of the store.
        File segments = new File(task, name);
        if (new File(task, ".checkpoint").exists() && (rocksdb.exists() || segments.exists())) {
            throw new ProcessorStateException("The directory " + task + " was written by RocksDB's store, with"
                    + " Kafka 4.2 or older: its file .checkpoint has offsets of records that the store " + name
                    + " does not have. Stop the application and delete " + task
                    + "; Kafka restores the task from its changelogs then");
        }
    }

    /** Opens the store of a task with this changelog, which may be null. */
    static Space open(String name, StateStoreContext context, TopicPartition changelog) {
        Map<String, Object> configs = context.appConfigs();
        // A global store has no producer. It reads what others have committed.
        boolean isGlobal = context.taskId().subtopology() < 0;
        boolean isExactlyOnce = !isGlobal && "exactly_once_v2".equals(configs.get("processing.guarantee"));
        boolean isTransactional = isExactlyOnce && Transactions.isReported(configs);
        Path path = new File(new File(context.stateDir(), "esker"), name).toPath();
        refuseForeignOffsets(context.stateDir(), name);
        Options options = EskerConfig.acquire(configs);
        Esker db = null;
        try {
            Files.createDirectories(path.getParent());
            db = Esker.open(path, options);
            Space space = new Space(name, db, isTransactional, changelog);
            space.begin(isExactlyOnce, context);
            return space;
        } catch (IOException | EskerException failed) {
            abandon(db);
            throw new ProcessorStateException("Error opening store " + name + " at location " + path, failed);
        } catch (RuntimeException failed) {
            abandon(db);
            throw failed;
        }
    }

    private static void abandon(Esker db) {
        if (db != null) {
            db.close();
        }
        EskerConfig.release();
    }

    private void begin(boolean isExactlyOnce, StateStoreContext context) {
        if (isExactlyOnce && Arrays.equals(meta.get(STATE), OPEN_DIRECT)) {
            throw new TaskCorruptedException(Set.of(context.taskId()), new ProcessorStateException("State store "
                    + name + " was not closed cleanly, and may hold writes of a transaction that was not committed."
                    + " With default.client.supplier=" + EskerClientSupplier.class.getName() + " it would be valid"));
        }
        meta.put(STATE, isTransactional ? OPEN_TRANSACTIONAL : OPEN_DIRECT);
    }

    String name() {
        return name;
    }

    Esker db() {
        return db;
    }

    boolean isOpen() {
        return isOpen;
    }

    TopicPartition changelog() {
        return changelog;
    }

    /** Sets a key, or deletes it if the value is null. */
    void put(byte[] key, byte[] value) {
        if (!isTransactional && !isCollecting) {
            if (value == null) {
                db.delete(key);
            } else {
                db.put(key, value);
            }
            return;
        }
        if (!isCollecting) {
            Transactions.touch(this);
        }
        // An empty value of the application must not be taken for the mark of a deleted key.
        overlay.put(key, value == null ? DELETED : value == DELETED ? new byte[0] : value);
        isEmptyOverlay = false;
    }

    /** Writes a batch of operations that belong together. */
    void put(Map<byte[], byte[]> pairs) {
        if (isTransactional || isCollecting) {
            pairs.forEach(this::put);
            return;
        }
        db.write(addTo(new Batch(), pairs));
    }

    private static Batch addTo(Batch batch, Map<byte[], byte[]> pairs) {
        pairs.forEach((key, value) -> {
            if (value == null || value == DELETED) {
                batch.delete(key);
            } else {
                batch.put(key, value);
            }
        });
        return batch;
    }

    byte[] get(byte[] key) {
        if (!isEmptyOverlay) {
            byte[] newer = overlay.get(key);
            if (newer != null) {
                return newer == DELETED ? null : newer;
            }
        }
        byte[] value = db.get(key);
        if (value != null) {
            readBytes.add(value.length);
        }
        return value;
    }

    /** Returns the bytes of values and pairs that were read from the store. */
    long readBytes() {
        return readBytes.sum();
    }

    /** Returns the pairs from {@code from} to {@code to}; null is no bound. */
    Pairs range(byte[] from, byte[] to, boolean toIsIn, boolean forward) {
        NavigableMap<byte[], byte[]> newer = EMPTY;
        // The overlay first: what a commit moves to the store in between is then in both.
        if (!isEmptyOverlay) {
            newer = overlay;
            if (from != null && to != null && Arrays.compareUnsigned(from, to) > 0) {
                newer = EMPTY;
            } else {
                newer = from == null ? newer : newer.tailMap(from, true);
                newer = to == null ? newer : newer.headMap(to, toIsIn);
            }
        }
        return new Pairs(db.iterator(new KeyRange(from, true, to, toIsIn)), newer, forward, readBytes);
    }

    /** Deletes the keys from {@code from} to before {@code to}, which no reader asks for any more. */
    void expire(byte[] from, byte[] to) {
        if (!isTransactional && !isCollecting) {
            db.deleteRange(from, to);
            return;
        }
        if (!isCollecting) {
            Transactions.touch(this);
        }
        overlay.subMap(from, true, to, false).clear();
        expired.merge(from, to, (one, other) -> Arrays.compareUnsigned(one, other) < 0 ? other : one);
    }

    /** Writes restored pairs with the offset of the last of them, past the overlay. */
    void restore(Map<byte[], byte[]> pairs, TopicPartition partition, long offset) {
        Batch batch = addTo(new Batch(), pairs);
        addPosition(batch);
        // Without the transactions of a producer, Kafka says when an offset is valid.
        if (isTransactional) {
            addOffset(batch, partition, offset);
        }
        db.write(batch);
    }

    /** Lets the overlay take the following writes, which are a restore, until {@link #restoreCollected}. */
    void collect() {
        isCollecting = true;
    }

    /** Writes what was collected, with the offset of the last restored record; the partition may be null. */
    void restoreCollected(TopicPartition partition, long offset) {
        isCollecting = false;
        Batch batch = new Batch();
        drain(batch);
        if (isTransactional && partition != null) {
            addOffset(batch, partition, offset);
        }
        addPosition(batch);
        db.write(batch);
        forgetOverlay();
    }

    /** Writes the overlay, after the transaction of its writes was committed. */
    void commitOverlay(Long offset) {
        Batch batch = new Batch();
        drain(batch);
        if (offset != null && changelog != null) {
            addOffset(batch, changelog, offset);
        }
        addPosition(batch);
        db.write(batch);
        forgetOverlay();
    }

    private void drain(Batch batch) {
        expired.forEach(batch::deleteRange);
        addTo(batch, overlay);
    }

    /** Drops the writes of a transaction that was aborted. Readers that exist keep theirs. */
    void forgetOverlay() {
        overlay = newOverlay();
        isEmptyOverlay = true;
        expired.clear();
    }

    /** Does what {@code StateStore.commit} asks for: an empty map forgets all offsets. */
    void commit(Map<TopicPartition, Long> offsets) {
        Batch batch = new Batch();
        if (offsets.isEmpty()) {
            batch.deleteRange(meta, new byte[] {'o'}, new byte[] {'o' + 1});
        } else {
            drain(batch);
            offsets.forEach((partition, offset) -> {
                if (offset == null) {
                    batch.delete(meta, offsetKey(partition));
                } else {
                    addOffset(batch, partition, offset);
                }
            });
        }
        addPosition(batch);
        db.write(batch);
        if (!offsets.isEmpty()) {
            forgetOverlay();
        }
    }

    private void addOffset(Batch batch, TopicPartition partition, long offset) {
        batch.put(meta, offsetKey(partition), ByteBuffer.allocate(8).putLong(offset).array());
    }

    private void addPosition(Batch batch) {
        synchronized (current) {
            ByteBuffer text = PositionSerde.serialize(current);
            byte[] bytes = new byte[text.remaining()];
            text.get(bytes);
            batch.put(meta, POSITION, bytes);
        }
    }

    private static byte[] offsetKey(TopicPartition partition) {
        return ("o" + partition.partition() + " " + partition.topic()).getBytes(StandardCharsets.UTF_8);
    }

    /** Returns the offset up to which the store holds a changelog; null if it is unknown. */
    Long committedOffset(TopicPartition partition) {
        byte[] offset = meta.get(offsetKey(partition));
        return offset == null ? null : (Long) ByteBuffer.wrap(offset).getLong();
    }

    /** Returns the Position of the store, which the caller updates with each write. */
    Position position() {
        return current;
    }

    /** Closes the store. Writes of a transaction that was not committed are dropped. */
    void close() {
        if (!isOpen) {
            return;
        }
        isOpen = false;
        Transactions.forget(this);
        try {
            meta.put(STATE, CLOSED);
        } finally {
            abandon(db);
        }
    }
}
