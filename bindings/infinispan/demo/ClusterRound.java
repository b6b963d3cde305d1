package dev.esker.infinispan.demo;

import dev.esker.ycsb.Place;
import dev.esker.ycsb.Processes;
import dev.esker.ycsb.Request;
import dev.esker.ycsb.Round;
import dev.esker.ycsb.RowClient;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.infinispan.Cache;
import org.infinispan.commons.util.Version;
import org.infinispan.context.Flag;
import site.ycsb.DB;

/**
 * YCSB through a cluster of three nodes: this process is one of them, and has the client threads. Each node
 * keeps a part of its entries in memory, so that reads need the store.
 */
public final class ClusterRound implements Place {
    private static final int NODES = 3;
    private static final int KEPT_SHARE = 20;

    private final String store;
    private final long kept;
    private final Node own;
    private final List<NodeProcess> others = new ArrayList<>();

    private ClusterRound(Request request) throws Exception {
        store = request.store();
        kept = store.equals("memory") ? 0 : Math.max(request.entries() / KEPT_SHARE, 100);
        Path directory = Path.of(request.directory());
        List<Integer> ports = Processes.freePorts(NODES);
        for (String property : NodeProcess.properties(0, ports)) {
            String[] parts = property.split("=");
            System.setProperty(parts[0], parts[1]);
        }
        own = Node.start(store, directory.resolve("node-1"), kept, false);
        try {
            for (int number = 1; number < NODES; number++) {
                others.add(new NodeProcess(store, directory, number, ports, kept, false));
            }
            for (NodeProcess other : others) {
                other.ready();
            }
            own.await(NODES);
        } catch (Exception failed) {
            close();
            throw failed;
        }
    }

    /** Runs the round that is described on standard input. */
    public static void main(String[] arguments) throws Exception {
        Round.run(ClusterRound::new);
    }

    @Override
    public String about() {
        String memory = kept == 0 ? "all entries in memory" : kept + " entries of a node in memory";
        return "Infinispan " + Version.getVersion() + ", three nodes, two owners, store: " + store + ", " + memory
                + ", Esker's library of commit " + System.getProperty("esker.commit");
    }

    @Override
    public DB client() {
        return new Client(own.cache);
    }

    @Override
    public String whyNot(char letter) {
        return letter == 'e' ? "Infinispan's caches have no scan in the order of the keys" : null;
    }

    @Override
    public long records() {
        return own.cache.size();
    }

    @Override
    public List<Long> processes() {
        List<Long> all = new ArrayList<>(List.of(ProcessHandle.current().pid()));
        others.forEach(other -> all.add(other.pid()));
        return all;
    }

    @Override
    public void close() {
        others.forEach(NodeProcess::close);
        own.close();
    }

    /** YCSB's calls as calls of a cache. */
    private static final class Client extends RowClient {
        private final Cache<String, byte[]> cache;
        private final Cache<String, byte[]> writes;

        Client(Cache<String, byte[]> cache) {
            this.cache = cache;
            // YCSB does not ask for the value before, so that it is not fetched.
            writes = cache.getAdvancedCache().withFlags(Flag.IGNORE_RETURN_VALUES);
        }

        @Override
        protected byte[] get(String key) {
            return cache.get(key);
        }

        @Override
        protected void put(String key, byte[] row) {
            writes.put(key, row);
        }
    }
}
