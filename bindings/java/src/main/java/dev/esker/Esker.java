package dev.esker;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/**
 * An open store. Its own reads and writes are those of the keyspace {@code default}.
 *
 * <pre>{@code
 * try (Esker db = Esker.open(Path.of("db"))) {
 *     db.put("apple".getBytes(), "red".getBytes());
 *     byte[] value = db.get("apple".getBytes());
 * }
 * }</pre>
 *
 * <p>A close waits for the calls that run in other threads; later calls throw {@code CLOSED}.
 */
public final class Esker extends KeyValues implements AutoCloseable {
    private static final long PAUSE_NS = 50_000;
    private static final long PAUSE_NS_MAX = 20_000_000;

    private final Path path;

    Esker(Path path, long handle) {
        super("store", handle, true);
        this.path = path;
    }

    /**
     * Opens a store, and creates it if it is missing.
     *
     * @param path its directory
     * @return the open store
     */
    public static Esker open(Path path) {
        return open(path, new Options());
    }

    /**
     * Opens a store.
     *
     * @param path its directory
     * @param options its options
     * @return the open store
     * @throws EskerException {@code LOCKED} if it is open elsewhere, {@code NOT_FOUND},
     *     {@code INCOMPATIBLE}, {@code CORRUPTION}, {@code IO}, {@code INVALID_ARGUMENT}
     */
    public static Esker open(Path path, Options options) {
        return open(path, options, false);
    }

    /**
     * Opens the current state of a store, which may be open elsewhere, for reads.
     *
     * @param path its directory
     * @param options its options
     * @return the open store
     */
    public static Esker openReadOnly(Path path, Options options) {
        return open(path, options, true);
    }

    private static Esker open(Path path, Options options, boolean isReadOnly) {
        Runtime runtime = options.runtime();
        long shared = runtime == null ? 0 : runtime.handle();
        long handle = Native.open(runtime, text(path), options.packed(path), shared, isReadOnly);
        return new Esker(path, handle);
    }

    /**
     * Follows a store that another process writes, with the defaults.
     *
     * @param path its directory
     * @return a new follower, which must be closed
     */
    public static Follower follow(Path path) {
        return follow(path, new Options());
    }

    /**
     * Follows a store, which may be open for writing in another process or in this one, or in none. Nothing on
     * disk is changed.
     *
     * @param path its directory
     * @param options its options, with its key
     * @return a new follower, whose first view is that of now; it must be closed
     * @throws EskerException {@code NOT_FOUND} if there is no store, and as
     *     {@link #openReadOnly(Path, Options)}
     */
    public static Follower follow(Path path, Options options) {
        Runtime runtime = options.runtime();
        long shared = runtime == null ? 0 : runtime.handle();
        return new Follower(path, Native.follow(runtime, text(path), options.packed(path), shared));
    }

    private static byte[] text(Path path) {
        return Native.utf8(path.toString());
    }

    /**
     * Returns the version of this library.
     *
     * @return the version in the jar, or {@code "unknown"}
     */
    public static String version() {
        String version = Esker.class.getPackage().getImplementationVersion();
        return version == null ? "unknown" : version;
    }

    @Override
    Esker store() {
        return this;
    }

    /**
     * Returns the directory of the store.
     *
     * @return the path with which it was opened
     */
    public Path path() {
        return path;
    }

    /**
     * Opens a keyspace, and creates it if it is missing.
     *
     * @param name its name
     * @return the keyspace
     */
    public Keyspace keyspace(String name) {
        return keyspace(name, Map.of());
    }

    /**
     * Opens a keyspace, or creates it with options, which are stored with it.
     *
     * @param name its name
     * @param options options of the store's table, and {@code merge_operator}, {@code ttl_ms} and
     *     {@code key_order} ({@code esker.bytewise} or {@code esker.reverse})
     * @return the keyspace
     * @throws EskerException {@code INVALID_ARGUMENT} if it exists with other options
     */
    public Keyspace keyspace(String name, Map<String, String> options) {
        return new Keyspace(this, name,
                Native.keyspace(this, handle(), Native.utf8(name), Options.packed(options)));
    }

    /**
     * Returns the names of the keyspaces.
     *
     * @return the names, in order
     */
    public List<String> keyspaces() {
        return Native.texts(Native.keyspaces(this, handle()));
    }

    /**
     * Removes a keyspace with its pairs.
     *
     * @param name its name
     */
    public void dropKeyspace(String name) {
        Native.dropKeyspace(this, handle(), Native.utf8(name));
    }

    /**
     * Returns a snapshot of all keyspaces.
     *
     * @return a new snapshot, which must be closed
     */
    public Snapshot snapshot() {
        return new Snapshot(this, Native.snapshot(this, handle()));
    }

    /**
     * Begins a transaction.
     *
     * @param options its options
     * @return a new transaction, which must be committed or closed
     */
    public Transaction transaction(TransactionOptions options) {
        return new Transaction(this, Native.transaction(this, handle(), options.serializable(),
                options.pessimistic(), options.lockTimeoutMs(), Durability.number(options.durability())));
    }

    /**
     * Runs a function in a transaction and commits it; again after a conflict, with growing pauses.
     *
     * @param <R> the type of the result
     * @param options options of the transactions
     * @param work the function, which may run several times
     * @return its result of the run that was committed
     */
    public <R> R transact(TransactionOptions options, Function<Transaction, R> work) {
        for (int run = 1;; run++) {
            try (Transaction transaction = transaction(options)) {
                R result = work.apply(transaction);
                transaction.commit();
                return result;
            } catch (EskerException failed) {
                if (!failed.isRetryable() || run >= options.attemptsMax()) {
                    throw failed;
                }
            }
            long full = Math.min(PAUSE_NS << Math.min(run - 1, 16), PAUSE_NS_MAX);
            LockSupport.parkNanos(full / 2 + ThreadLocalRandom.current().nextLong(full / 2 + 1));
        }
    }

    /**
     * Returns the change feed after a position. The store keeps the logs that slots need. Without a slot,
     * a log is removed when its memtable was flushed.
     *
     * @param from the sequence number of the last batch that the caller has seen; 0 for all
     * @return a new feed, which should be closed
     * @throws EskerException {@code NOT_FOUND} if the changes after it are in no log any more,
     *     {@code INVALID_ARGUMENT} if it is after the newest write
     */
    public Changes changes(long from) {
        return new Changes(this, Native.changes(this, handle(), null, from), from);
    }

    /**
     * Does the same as {@link #subscribe(String, long)}, with a limit of 16 GiB.
     *
     * @param name the name
     * @return the slot
     */
    public Slot subscribe(String name) {
        return subscribe(name, 0);
    }

    /**
     * Opens a slot, and creates it at the present if it does not exist: its first batch is the first one
     * after this call. While a store has a slot, writes without a log are logged.
     *
     * @param name its name: 1 to 64 letters, digits, {@code -} and {@code _}
     * @param lagLimitBytes the maximum size of logs that are kept only for slots; a new slot that would
     *     need more is dropped, and its next use throws; 0 is 16 GiB, and a negative limit is none
     * @return the slot
     * @throws EskerException {@code NOT_FOUND} if it exists and was dropped because it lagged too far
     */
    public Slot subscribe(String name, long lagLimitBytes) {
        Native.subscribe(this, handle(), Native.utf8(name), lagLimitBytes);
        return new Slot(this, name);
    }

    /**
     * Returns a slot.
     *
     * @param name its name
     * @return the slot
     * @throws EskerException {@code NOT_FOUND} if there is none
     */
    public Slot slot(String name) {
        Slot slot = new Slot(this, name);
        slot.position();
        return slot;
    }

    /**
     * Returns the slots.
     *
     * @return their state, in alphabetical order
     */
    public List<Slot.Info> slots() {
        List<String> texts = Native.texts(Native.slots(this, handle()));
        List<Slot.Info> slots = new java.util.ArrayList<>();
        for (int at = 0; at < texts.size(); at += 5) {
            String problem = texts.get(at + 4);
            slots.add(new Slot.Info(texts.get(at), Long.parseLong(texts.get(at + 1)),
                    Long.parseLong(texts.get(at + 2)), Long.parseLong(texts.get(at + 3)),
                    problem.isEmpty() ? null : problem));
        }
        return slots;
    }

    /**
     * Removes a slot, also a damaged one, and the logs that only it needed.
     *
     * @param name its name
     */
    public void dropSlot(String name) {
        Native.dropSlot(this, handle(), Native.utf8(name));
    }

    /**
     * Takes a snapshot with its position in the change feed. A reader that copies the snapshot and then
     * applies the changes from the position has no gap and no batch twice. A slot must exist before.
     *
     * @return the snapshot, which should be closed, and its position
     */
    public PositionedSnapshot snapshotWithPosition() {
        long[] made = Native.snapshotWithPosition(this, handle());
        return new PositionedSnapshot(new Snapshot(this, made[0]), made[1]);
    }

    /**
     * Does the same as {@link #fork(Path, String)}, without a name.
     *
     * @param directory a directory that does not exist
     * @return what the fork shares with this store
     */
    public ForkReport fork(Path directory) {
        return fork(directory, null);
    }

    /**
     * Creates a fork: a store of its own that begins with the content of this one. Tables are hard-linked
     * where that is possible. No write into one of the stores is visible in the other.
     *
     * @param directory a directory that does not exist
     * @param name a name that the fork keeps, or null
     * @return what the fork shares with this store
     */
    public ForkReport fork(Path directory, String name) {
        long[] made = Native.fork(this, handle(), text(directory), name == null ? null : Native.utf8(name));
        return new ForkReport(made[0], made[1], made[2], made[3], made[4]);
    }

    /**
     * Returns the identity of the store, and the stores that it descends from.
     *
     * @return the lineage
     */
    public Lineage lineage() {
        List<String> texts = Native.texts(Native.lineage(this, handle()));
        List<Lineage.Ancestor> ancestors = new java.util.ArrayList<>();
        for (int at = 2; at < texts.size(); at += 3) {
            ancestors.add(new Lineage.Ancestor(Long.parseUnsignedLong(texts.get(at)), orNull(texts.get(at + 1)),
                    Long.parseLong(texts.get(at + 2))));
        }
        return new Lineage(Long.parseUnsignedLong(texts.get(0)), orNull(texts.get(1)), List.copyOf(ancestors));
    }

    private static String orNull(String text) {
        return text.isEmpty() ? null : text;
    }

    /**
     * Compares two stores as of now, all keyspaces of them.
     *
     * @param old the first store
     * @param now the second store
     * @return the differences, which should be closed
     */
    public static Diff diff(Esker old, Esker now) {
        return diff(old, null, now, null, null);
    }

    /**
     * Compares two stores, or snapshots of them. Tables that both share, as a fork and its parent do, are
     * read only near changed keys.
     *
     * @param old the first store
     * @param oldSnapshot a snapshot of it, or null for now
     * @param now the second store
     * @param newSnapshot a snapshot of it, or null for now
     * @param keyspace the only keyspace to compare, or null for all
     * @return the differences, which should be closed
     * @throws EskerException {@code INCOMPATIBLE} if a keyspace has different key orders,
     *     {@code NOT_FOUND} if neither store has the keyspace
     */
    public static Diff diff(Esker old, Snapshot oldSnapshot, Esker now, Snapshot newSnapshot, String keyspace) {
        List<Object> of = Arrays.asList(old, oldSnapshot, now, newSnapshot);
        long handle = Native.diff(of, old.handle(), oldSnapshot == null ? 0 : oldSnapshot.handleFor(old),
                now.handle(), newSnapshot == null ? 0 : newSnapshot.handleFor(now),
                keyspace == null ? null : Native.utf8(keyspace));
        return new Diff(of, handle);
    }

    /**
     * Returns the names of the prepared transactions.
     *
     * @return the names
     */
    public List<String> preparedTransactions() {
        return Native.texts(Native.prepared(this, handle()));
    }

    /**
     * Commits a prepared transaction.
     *
     * @param name its name
     */
    public void commitPrepared(String name) {
        Native.resolvePrepared(this, handle(), Native.utf8(name), true);
    }

    /**
     * Rolls a prepared transaction back.
     *
     * @param name its name
     */
    public void rollbackPrepared(String name) {
        Native.resolvePrepared(this, handle(), Native.utf8(name), false);
    }

    /** Writes the memtables to tables, and waits for it. */
    public void flush() {
        Native.flush(this, handle());
    }

    /** Makes all writes durable that have returned. */
    public void sync() {
        Native.sync(this, handle());
    }

    /** Waits until there is no background work. */
    public void waitIdle() {
        Native.waitIdle(this, handle());
    }

    /**
     * Changes options of the open store.
     *
     * @param options names and values
     */
    public void setOptions(Map<String, String> options) {
        Native.setOptions(this, handle(), Options.packed(options));
    }

    /**
     * Returns the value of an option.
     *
     * @param name its name
     * @return its value, or null for an unknown name
     */
    public String option(String name) {
        byte[] value = Native.option(this, handle(), Native.utf8(name));
        return value == null ? null : new String(value, java.nio.charset.StandardCharsets.UTF_8);
    }

    private static final class Names {
        static final List<String> ALL = Native.texts(Native.metricNames(null));
    }

    /**
     * Returns the numbers of the store by their names, as {@code esker_user_ops}. A number of levels
     * is the sum over the levels. A number of seconds is in microseconds.
     *
     * @return a new map
     */
    public Map<String, Long> metrics() {
        long[] numbers = Native.metrics(this, handle());
        Map<String, Long> metrics = new LinkedHashMap<>();
        for (int at = 0; at < numbers.length; at++) {
            metrics.put(Names.ALL.get(at), numbers[at]);
        }
        return metrics;
    }

    /**
     * Returns the numbers of the store in the OpenMetrics format.
     *
     * @return the text
     */
    public String openMetrics() {
        return new String(Native.openMetrics(this, handle()), java.nio.charset.StandardCharsets.UTF_8);
    }

    /**
     * Reads and checks all files.
     *
     * @return the problems, one sentence each; empty for a whole store
     */
    public List<String> verify() {
        return Native.texts(Native.verify(this, handle()));
    }

    /**
     * Creates a checkpoint: a store in another directory with the state of now, by hard links.
     *
     * @param directory a directory that does not exist
     */
    public void checkpoint(Path directory) {
        Native.checkpoint(this, handle(), text(directory));
    }

    /**
     * Raises the format version of the store: 2 is the newest one. A store keeps the version with which
     * it was created (option {@code format_version}), and earlier releases can open it, until this is
     * called. Afterwards they refuse it. The version cannot be lowered.
     *
     * @param to the version; {@link ErrorKind#INVALID_ARGUMENT} if it is unknown or older
     */
    public void upgradeFormat(int to) {
        Native.upgradeFormat(this, handle(), to);
    }

    /**
     * Adds a backup to a directory of backups. Tables of earlier backups are shared.
     *
     * @param directory the directory, which is created if it is missing
     * @return the number of the backup
     */
    public long backup(Path directory) {
        return Native.backup(this, handle(), text(directory));
    }

    /**
     * Returns the numbers of the backups in a directory.
     *
     * @param directory a directory of backups
     * @return the numbers, oldest first
     */
    public static List<Long> backups(Path directory) {
        return backups(directory, new Options());
    }

    /**
     * Does the same as {@link #backups(Path)}, for encrypted backups.
     *
     * @param directory a directory of backups
     * @param options options with the key
     * @return the numbers, oldest first
     */
    public static List<Long> backups(Path directory, Options options) {
        return Arrays.stream(Native.backups(null, text(directory), options.packed(directory))).boxed().toList();
    }

    /**
     * Removes the oldest backups.
     *
     * @param directory a directory of backups
     * @param keep how many backups are left, at least 1
     */
    public static void pruneBackups(Path directory, int keep) {
        pruneBackups(directory, keep, new Options());
    }

    /**
     * Does the same as {@link #pruneBackups(Path, int)}, for encrypted backups.
     *
     * @param directory a directory of backups
     * @param keep how many backups are left, at least 1
     * @param options options with the key
     */
    public static void pruneBackups(Path directory, int keep, Options options) {
        Native.pruneBackups(null, text(directory), keep, options.packed(directory));
    }

    /**
     * Creates a store from a backup. Every table is read back and compared.
     *
     * @param directory a directory of backups
     * @param number the number of a backup, or -1 for the newest one
     * @param into the directory of the new store, which must not exist
     * @return the number of the backup
     */
    public static long restore(Path directory, long number, Path into) {
        return restore(directory, number, into, new Options());
    }

    /**
     * Does the same as {@link #restore(Path, long, Path)}, for encrypted backups.
     *
     * @param directory a directory of backups
     * @param number the number of a backup, or -1 for the newest one
     * @param into the directory of the new store, which must not exist
     * @param options options with the key, under which the new store is encrypted
     * @return the number of the backup
     */
    public static long restore(Path directory, long number, Path into, Options options) {
        return Native.restore(null, text(directory), number, text(into), options.packed(directory));
    }

    /**
     * Changes the key of an encrypted store that is not open. Only the file {@code KEYS} is written, so it
     * takes milliseconds; a crash leaves the store with the one or the other key. The old key opens nothing
     * afterwards. New files get a new data key, and existing ones keep theirs until {@link #compact} rewrites
     * them. Copies have a {@code KEYS} of their own, under the key of the time at which they were made.
     *
     * @param path its directory
     * @param options options with the present key
     * @param next options with the new key, which a {@link Options.KeySource} is asked for with null
     * @return what was changed
     * @throws EskerException {@code LOCKED} while it is open, {@code NOT_FOUND}, {@code INVALID_ARGUMENT} if it
     *     is not encrypted, the present key does not open it or a key is missing; nothing is changed then
     */
    public static RekeyReport rekey(Path path, Options options, Options next) {
        List<String> texts =
                Native.texts(Native.rekey(null, text(path), options.packed(path), next.packedForNewKey()));
        return new RekeyReport(texts.get(0), texts.get(1), Long.parseLong(texts.get(2)), Long.parseLong(texts.get(3)));
    }

    /**
     * Removes a store that is not open.
     *
     * @param path its directory
     */
    public static void destroy(Path path) {
        Native.destroy(null, text(path));
    }

    /**
     * Rebuilds a store that is not open from the intact parts of its files.
     *
     * @param path its directory
     * @param options its options
     * @return what was lost, one sentence each
     */
    public static List<String> repair(Path path, Options options) {
        return Native.texts(Native.repair(null, text(path), options.packed(path)));
    }

    /** Closes the store, and waits for the calls of other threads. Closing twice is allowed. */
    @Override
    public void close() {
        long handle = resource.close();
        if (handle != 0) {
            Native.close(this, handle);
        }
    }
}
