package dev.esker;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The functions of the native library. The first argument is the owner of the handles: an argument is
 * reachable while the function runs, so no cleaner frees them.
 */
final class Native {
    static {
        NativeLibrary.load();
    }

    private Native() {}

    static native void put(Object owner, long part, byte[] key, int keyOffset, int keyLength,
            byte[] value, int valueOffset, int valueLength, int durability);

    static native void putWithTtl(Object owner, long part, byte[] key, byte[] value, long ttlMs);

    static native boolean touch(Object owner, long part, byte[] key, long ttlMs);

    static native long expiryMs(Object owner, long part, byte[] key);

    static native void delete(Object owner, long part, byte[] key, int offset, int length, int durability);

    static native boolean remove(Object owner, long part, byte[] key);

    static native void deleteRange(Object owner, long part, byte[] start, byte[] end);

    static native void merge(Object owner, long part, byte[] key, byte[] operand);

    static native void write(Object owner, long part, byte[] packed, int length, long[] parts, int durability);

    static native byte[] get(Object owner, long part, byte[] key, int offset, int length);

    static native byte[] multiGet(Object owner, long part, byte[] keys);

    static native boolean containsKey(Object owner, long part, byte[] key);

    static native void compactRange(Object owner, long part, byte[] start, byte[] end);

    static native long sizeBytes(Object owner, long part);

    static native long keyspace(Object owner, long part, byte[] name, byte[] options);

    static native void clear(Object owner, long part);

    static native void freePart(Object owner, long part);

    static native long snapshot(Object owner, long part);

    static native byte[] getAt(Object owner, long part, long snapshot, byte[] key, int offset, int length);

    static native void releaseSnapshot(Object owner, long snapshot);

    static native void freeSnapshot(Object owner, long snapshot);

    static native long iterator(Object owner, long part, long snapshot, long transaction, byte[] from,
            boolean fromIsIn, byte[] to, boolean toIsIn, boolean fillCache);

    static native void seek(Object owner, long iterator, int kind, byte[] key);

    static native int fill(Object owner, long iterator, byte[] array, int room, boolean isForward);

    static native void freeIterator(Object owner, long iterator);

    static native long transaction(Object owner, long part, boolean isSerializable,
            boolean isPessimistic, long lockTimeoutMs, int durability);

    static native byte[] transactionGet(Object owner, long transaction, long part, byte[] key, boolean forUpdate);

    static native void transactionWrite(Object owner, long transaction, long part, int kind, byte[] key, byte[] value);

    static native void savepoint(Object owner, long transaction, int kind);

    static native void commit(Object owner, long transaction);

    static native void prepare(Object owner, long transaction, byte[] name);

    static native void resolvePrepared(Object owner, long part, byte[] name, boolean commits);

    static native void freeTransaction(Object owner, long transaction);

    static native long runtime(Object owner, long memoryBytes, long cacheBytes, long threadsMax, long rateBytes);

    static native long[] runtimeMetrics(Object owner, long runtime);

    static native void freeRuntime(Object owner, long runtime);

    static native long open(Object owner, byte[] path, byte[] options, long runtime, boolean isReadOnly);

    static native void close(Object owner, long part);

    static native void flush(Object owner, long part);

    static native void sync(Object owner, long part);

    static native void waitIdle(Object owner, long part);

    static native void setOptions(Object owner, long part, byte[] options);

    static native byte[] option(Object owner, long part, byte[] name);

    static native byte[] metricNames(Object owner);

    static native long[] metrics(Object owner, long part);

    static native byte[] openMetrics(Object owner, long part);

    static native byte[] keyspaces(Object owner, long part);

    static native void dropKeyspace(Object owner, long part, byte[] name);

    static native byte[] prepared(Object owner, long part);

    static native byte[] verify(Object owner, long part);

    static native void checkpoint(Object owner, long part, byte[] path);

    static native void upgradeFormat(Object owner, long part, int to);

    static native long backup(Object owner, long part, byte[] path);

    static native long[] backups(Object owner, byte[] path, byte[] options);

    static native void pruneBackups(Object owner, byte[] path, int keep, byte[] options);

    static native long restore(Object owner, byte[] path, long number, byte[] into, byte[] options);

    static native void destroy(Object owner, byte[] path);

    static native byte[] repair(Object owner, byte[] path, byte[] options);

    static native byte[] wantedKey(Object owner, byte[] path);

    static native byte[] rekey(Object owner, byte[] path, byte[] options, byte[] next);

    static native long follow(Object owner, byte[] path, byte[] options, long runtime);

    static native long followerView(Object owner, long follower);

    static native long followerPosition(Object owner, long follower);

    static native long catchUp(Object owner, long follower);

    static native void catchUpEvery(Object owner, long follower, long intervalMs);

    static native boolean waitForPosition(Object owner, long follower, long position, long waitMs);

    static native byte[] followerLag(Object owner, long follower);

    static native long promote(Object owner, long follower);

    static native void closeFollower(Object owner, long follower);

    static native void freeFollower(Object owner, long follower);

    static native void subscribe(Object owner, long part, byte[] name, long limit);

    static native long slotPosition(Object owner, long part, byte[] name);

    static native void confirm(Object owner, long part, byte[] name, long position);

    static native void dropSlot(Object owner, long part, byte[] name);

    static native byte[] slots(Object owner, long part);

    static native long changes(Object owner, long part, byte[] slot, long from);

    static native byte[] nextChanges(Object owner, long feed, long waitMs);

    static native void freeFeed(Object owner, long feed);

    static native long[] snapshotWithPosition(Object owner, long part);

    static native long[] fork(Object owner, long part, byte[] path, byte[] name);

    static native byte[] lineage(Object owner, long part);

    static native long diff(Object owner, long old, long oldSnapshot, long now, long newSnapshot, byte[] keyspace);

    static native byte[] nextDifferences(Object owner, long diff);

    static native byte[] diffFacts(Object owner, long diff);

    static native void freeDiff(Object owner, long diff);

    static native long sortedWriter(Object owner, byte[] path, byte[] options);

    static native void sortedAdd(Object owner, long writer, int kind, byte[] key, byte[] value, long ttlMs);

    static native long[] sortedFinish(Object owner, long writer);

    static native void freeSortedWriter(Object owner, long writer);

    static native long[] ingest(Object owner, long part, byte[] files, boolean copy, boolean verify);

    static native void nothing(Object owner);

    static native void panic(Object owner);

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Packs items: a length of 4 bytes, little-endian, and as many bytes each. */
    static byte[] pack(List<byte[]> items) {
        long length = 0;
        for (byte[] item : items) {
            length += 4L + item.length;
        }
        if (length > Integer.MAX_VALUE - 8) {
            throw EskerException.invalid(length + " bytes of keys do not fit into one call");
        }
        ByteBuffer out = ByteBuffer.allocate((int) length).order(ByteOrder.LITTLE_ENDIAN);
        items.forEach(item -> out.putInt(item.length).put(item));
        return out.array();
    }

    /** Returns the texts of packed items. */
    static List<String> texts(byte[] packed) {
        List<String> texts = new ArrayList<>();
        ByteBuffer in = ByteBuffer.wrap(packed).order(ByteOrder.LITTLE_ENDIAN);
        while (in.hasRemaining()) {
            byte[] text = new byte[in.getInt()];
            in.get(text);
            texts.add(new String(text, StandardCharsets.UTF_8));
        }
        return texts;
    }
}
