package dev.esker.infinispan.demo;

import dev.esker.infinispan.EskerStoreConfigurationBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongPredicate;
import java.util.stream.IntStream;
import org.infinispan.Cache;
import org.infinispan.configuration.cache.CacheMode;
import org.infinispan.configuration.cache.ConfigurationBuilder;
import org.infinispan.configuration.global.GlobalConfigurationBuilder;
import org.infinispan.distribution.LocalizedCacheTopology;
import org.infinispan.manager.DefaultCacheManager;
import org.infinispan.persistence.rocksdb.configuration.RocksDBStoreConfigurationBuilder;

/**
 * A node of a cluster, with a cache whose entries have two owners. As a process it obeys the lines of its
 * standard input, and ends when that does.
 */
final class Node implements AutoCloseable {
    static final int OWNERS = 2;
    static final int SEGMENTS = 64;
    private static final int CLIENTS = 4;

    final DefaultCacheManager manager;
    final Cache<String, byte[]> cache;

    private Node(DefaultCacheManager manager, Cache<String, byte[]> cache) {
        this.manager = manager;
        this.cache = cache;
    }

    /**
     * Starts a node in this process.
     *
     * @param store esker, rocksdb, files (Infinispan's own files), or memory (no store)
     * @param directory where its files are
     * @param kept the entries that are kept in memory too; 0 for all
     * @param purges whether the store is emptied first
     */
    static Node start(String store, Path directory, long kept, boolean purges) {
        GlobalConfigurationBuilder global = GlobalConfigurationBuilder.defaultClusteredBuilder();
        global.transport().clusterName("esker").addProperty("configurationFile", "jgroups.xml");
        global.jmx().disable();
        ConfigurationBuilder cache = new ConfigurationBuilder();
        cache.clustering().cacheMode(CacheMode.DIST_SYNC).hash().numOwners(OWNERS).numSegments(SEGMENTS);
        if (kept > 0) {
            cache.memory().maxCount(kept);
        }
        String at = directory.toAbsolutePath().toString();
        switch (store) {
            case "esker" -> cache.persistence().addStore(EskerStoreConfigurationBuilder.class).location(at)
                    .purgeOnStartup(purges);
            case "rocksdb" -> cache.persistence().addStore(RocksDBStoreConfigurationBuilder.class)
                    .location(at + "/pairs").expiredLocation(at + "/expired").purgeOnStartup(purges);
            case "files" -> cache.persistence().addSoftIndexFileStore().dataLocation(at + "/data")
                    .indexLocation(at + "/index").purgeOnStartup(purges);
            case "memory" -> { }
            default -> throw new IllegalArgumentException(
                    "unknown store " + store + "; the stores are esker, rocksdb, files and memory");
        }
        DefaultCacheManager manager = new DefaultCacheManager(global.build());
        try {
            return new Node(manager, manager.createCache("demo", cache.build()));
        } catch (RuntimeException failed) {
            manager.stop();
            throw failed;
        }
    }

    /** Waits until the cluster has this many nodes and each entry its owners. */
    void await(int nodes) throws InterruptedException {
        while (!isSpread(nodes)) {
            Thread.sleep(50);
        }
    }

    /** Returns whether all nodes are there, and each segment can be read from all of its owners. */
    private boolean isSpread(int nodes) {
        LocalizedCacheTopology topology = cache.getAdvancedCache().getDistributionManager().getCacheTopology();
        return manager.getMembers().size() == nodes && topology.getMembers().size() == nodes
                && topology.getPendingCH() == null
                && IntStream.range(0, SEGMENTS).allMatch(
                        segment -> topology.getSegmentDistribution(segment).readOwners().size() == OWNERS);
    }

    @Override
    public void close() {
        manager.stop();
    }

    static String key(long number) {
        return "key " + number;
    }

    static byte[] value(long number) {
        return ("value " + number + " ").repeat(20).getBytes(StandardCharsets.UTF_8);
    }

    /** A node as a process: STORE DIRECTORY KEPT PURGES. */
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        try (Node node = start(arguments[0], Path.of(arguments[1]), Long.parseLong(arguments[2]),
                Boolean.parseBoolean(arguments[3]));
                BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            out.println("ready");
            for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
                long begun = System.nanoTime();
                long count = node.obey(line.split(" "));
                out.println(count + " " + (System.nanoTime() - begun) / 1_000_000);
            }
        }
        System.exit(0);
    }

    /** Does what a line says, and returns for how many keys it was so. */
    private long obey(String[] words) throws InterruptedException {
        if (words[0].equals("await")) {
            await(Integer.parseInt(words[1]));
            return manager.getMembers().size();
        }
        long from = Long.parseLong(words[1]);
        long to = Long.parseLong(words[2]);
        return switch (words[0]) {
            case "put" -> each(from, to, number -> cache.put(key(number), value(number)) == null);
            case "remove" -> each(from, to, number -> cache.remove(key(number)) != null);
            case "right" -> each(from, to,
                    number -> java.util.Arrays.equals(cache.get(key(number)), value(number)));
            case "present" -> each(from, to, number -> cache.containsKey(key(number)));
            default -> throw new IllegalArgumentException("unknown command " + words[0]);
        };
    }

    private static long each(long from, long to, LongPredicate call) throws InterruptedException {
        AtomicLong next = new AtomicLong(from);
        AtomicLong count = new AtomicLong();
        CountDownLatch done = new CountDownLatch(CLIENTS);
        for (int client = 0; client < CLIENTS; client++) {
            new Thread(() -> {
                try {
                    for (long number = next.getAndIncrement(); number < to; number = next.getAndIncrement()) {
                        if (call.test(number)) {
                            count.incrementAndGet();
                        }
                    }
                } catch (RuntimeException failed) {
                    failed.printStackTrace();
                } finally {
                    done.countDown();
                }
            }).start();
        }
        done.await();
        return count.get();
    }
}
