package dev.esker;

import static dev.esker.BasicsTest.b;
import static org.junit.jupiter.api.Assertions.*;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Many threads on one store, and closes under them: calls succeed or throw, and nothing crashes. */
class ThreadsTest {
    private static final int THREADS = 6;

    @TempDir
    Path dir;

    private interface Work {
        void run(Esker db, int thread, int round);
    }

    private static void one(Esker db, int thread, int round) {
        byte[] key = b("key " + thread + " " + round % 50);
        switch ((thread + round) % 7) {
            case 0 -> db.put(key, new byte[round % 300]);
            case 1 -> db.get(key);
            case 2 -> {
                try (EskerIterator pairs = db.iterator()) {
                    for (pairs.seekToFirst(); pairs.isValid(); pairs.next()) {
                        pairs.key();
                    }
                }
            }
            case 3 -> {
                try (Snapshot snapshot = db.snapshot()) {
                    snapshot.get(key);
                }
            }
            case 4 -> db.write(new Batch().put(key, key).put(db.keyspace("other"), key, key));
            case 5 -> db.transact(TransactionOptions.DEFAULT, transaction -> {
                transaction.put(key, key);
                return transaction.get(key);
            });
            default -> db.multiGet(List.of(key, b("none")));
        }
    }

    @Test
    void closeUnderUse() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            for (int opening = 0; opening < 15; opening++) {
                Esker db = Esker.open(dir.resolve("db"));
                CountDownLatch started = new CountDownLatch(THREADS);
                List<Future<Integer>> running = new ArrayList<>();
                for (int thread = 0; thread < THREADS; thread++) {
                    int number = thread;
                    running.add(threads.submit(() -> untilClosed(db, number, started)));
                }
                started.await();
                db.close();
                for (Future<Integer> thread : running) {
                    assertTrue(thread.get() > 0);
                }
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private static int untilClosed(Esker db, int thread, CountDownLatch started) {
        for (int round = 0;; round++) {
            try {
                one(db, thread, round);
            } catch (EskerException closed) {
                started.countDown();
                assertEquals(ErrorKind.CLOSED, closed.kind(), closed.toString());
                return round + 1;
            }
            if (round == 20) {
                started.countDown();
            }
        }
    }

    @Test
    void iteratorsSnapshotsAndTransactionsClosedUnderUse() throws Exception {
        try (Esker db = Esker.open(dir.resolve("db"))) {
            for (int number = 0; number < 2000; number++) {
                db.put(b("key " + number), new byte[200]);
            }
            for (int round = 0; round < 60; round++) {
                EskerIterator pairs = db.iterator();
                Snapshot snapshot = db.snapshot();
                Transaction transaction = db.transaction(TransactionOptions.DEFAULT);
                Thread user = new Thread(() -> {
                    try {
                        while (true) {
                            pairs.seekToFirst();
                            while (pairs.isValid()) {
                                pairs.next();
                            }
                            snapshot.get(b("key 7"));
                            transaction.put(b("own"), b("x"));
                        }
                    } catch (EskerException closed) {
                        assertEquals(ErrorKind.CLOSED, closed.kind());
                    }
                });
                AtomicLong failures = new AtomicLong();
                user.setUncaughtExceptionHandler((thread, failed) -> failures.incrementAndGet());
                user.start();
                Thread.yield();
                if (round % 3 == 0) {
                    pairs.close();
                } else if (round % 3 == 1) {
                    snapshot.close();
                } else {
                    transaction.close();
                }
                user.join();
                assertEquals(0, failures.get());
                pairs.close();
                snapshot.close();
                transaction.close();
            }
        }
    }

    @Test
    void transfersKeepTheSum() throws Exception {
        try (Esker db = Esker.open(dir.resolve("db"))) {
            for (int account = 0; account < 4; account++) {
                db.put(new byte[] {(byte) account}, number(100));
            }
            ExecutorService threads = Executors.newFixedThreadPool(THREADS);
            List<Future<?>> running = new ArrayList<>();
            for (int thread = 0; thread < THREADS; thread++) {
                int seed = thread;
                running.add(threads.submit(() -> {
                    for (int round = 0; round < 100; round++) {
                        byte[] from = {(byte) ((seed + round) % 4)};
                        byte[] to = {(byte) ((seed * 3 + round * 7 + 1) % 4)};
                        TransactionOptions options =
                                round % 2 == 0 ? TransactionOptions.SERIALIZABLE : TransactionOptions.PESSIMISTIC;
                        db.transact(options, transaction -> {
                            long left = ByteBuffer.wrap(transaction.getForUpdate(from)).getLong();
                            transaction.put(from, number(left - 1));
                            long right = ByteBuffer.wrap(transaction.getForUpdate(to)).getLong();
                            transaction.put(to, number(right + 1));
                            return null;
                        });
                    }
                }));
            }
            for (Future<?> thread : running) {
                thread.get();
            }
            threads.shutdown();
            long sum = 0;
            for (int account = 0; account < 4; account++) {
                sum += ByteBuffer.wrap(db.get(new byte[] {(byte) account})).getLong();
            }
            assertEquals(400, sum);
        }
    }

    private static byte[] number(long value) {
        return ByteBuffer.allocate(8).putLong(value).array();
    }
}
