package dev.esker.infinispan.demo;

import dev.esker.ycsb.Picture;
import dev.esker.ycsb.Processes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A cluster of three nodes, each a process. Nodes are killed with SIGKILL while the others go on: no entry
 * is lost, and none that was removed comes back. Arguments: the directory, the file of a picture of the
 * throughput over time, and the stores.
 */
public final class ClusterDemo {
    private static final int NODES = 3;
    private static final int KEPT = 500;
    /** Parts of a load, each a point of the picture. */
    private static final int PARTS = 20;
    private static final long ENTRIES = Long.getLong("entries", 50_000);
    private static final long REMOVED = ENTRIES / 5;

    private final String store;
    private final Path directory;
    private final Picture picture;
    private final long began = System.nanoTime();
    private final List<Integer> ports;
    private final List<NodeProcess> nodes = new ArrayList<>();
    private boolean isRight = true;

    private ClusterDemo(String store, Path directory, Picture picture) throws IOException {
        this.store = store;
        this.picture = picture;
        this.directory = Files.createDirectories(directory);
        this.ports = Processes.freePorts(NODES);
    }

    /** Runs the demonstration for each store; exit code 1 if something was lost or came back. */
    public static void main(String[] arguments) throws Exception {
        boolean isRight = true;
        Picture picture = new Picture("Three nodes of Infinispan, two of them killed", "kill -9",
                "puts and removals a second", "gets a second");
        for (String store : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            ClusterDemo demo = new ClusterDemo(store, Path.of(arguments[0], store), picture);
            try {
                demo.run();
                demo.say("all of it took " + (long) demo.seconds() + " s");
            } finally {
                demo.nodes.forEach(NodeProcess::close);
            }
            isRight &= demo.isRight;
        }
        picture.save(Path.of(arguments[1]));
        System.out.println("demo: throughput over time: " + arguments[1]);
        System.exit(isRight ? 0 : 1);
    }

    private void run() throws Exception {
        for (int number = 0; number < NODES; number++) {
            nodes.add(start(number, false));
        }
        NodeProcess first = nodes.get(0);
        first.obey("await " + NODES);
        rate("put", inParts(first, 0, "put", 0, ENTRIES), ENTRIES);
        rate("get", inParts(first, 1, "right", 0, ENTRIES), ENTRIES);
        say("resident memory of the nodes: " + resident() + " MiB");

        kill(2);
        NodeProcess.Answer spread = first.obey("await 2");
        expect("not lost after the kill", inParts(first, 1, "right", 0, ENTRIES), ENTRIES);
        say("two nodes have all entries twice after " + spread.millis() + " ms");
        rate("removed while node 3 is away", inParts(first, 0, "remove", 0, REMOVED), REMOVED);

        // It comes back with what it had, which is older than the removals: its store is emptied first.
        long begun = System.nanoTime();
        nodes.set(2, start(2, true));
        first.obey("await " + NODES);
        say("node 3 is back, and has its segments " + (System.nanoTime() - begun) / 1_000_000 + " ms after its start");
        expect("removed and not back", new NodeProcess.Answer(
                REMOVED - first.obey("present 0 " + REMOVED).count(), 0), REMOVED);
        expect("not lost", inParts(first, 1, "right", REMOVED, ENTRIES), ENTRIES - REMOVED);

        kill(1);
        first.obey("await 2");
        expect("not lost after the second kill", inParts(nodes.get(2), 1, "right", REMOVED, ENTRIES),
                ENTRIES - REMOVED);
        expect("removed and not back", new NodeProcess.Answer(
                REMOVED - nodes.get(2).obey("present 0 " + REMOVED).count(), 0), REMOVED);
    }

    private NodeProcess start(int number, boolean purges) throws IOException {
        return new NodeProcess(store, directory, number, ports, KEPT, purges).ready();
    }

    private double seconds() {
        return (System.nanoTime() - began) / 1e9;
    }

    private void kill(int number) throws Exception {
        picture.mark(store, seconds());
        nodes.get(number).kill();
        say("node " + (number + 1) + " killed");
    }

    /** Gives a node a command for a range of entries, part by part, and draws how fast each part was. */
    private NodeProcess.Answer inParts(NodeProcess node, int panel, String command, long from, long to)
            throws IOException {
        picture.pause(panel, store);
        long count = 0;
        long millis = 0;
        for (int part = 0; part < PARTS; part++) {
            long start = from + (to - from) * part / PARTS;
            long end = from + (to - from) * (part + 1) / PARTS;
            NodeProcess.Answer answer = node.obey(command + " " + start + " " + end);
            count += answer.count();
            millis += answer.millis();
            picture.add(panel, store, seconds(), answer.count() * 1000.0 / Math.max(answer.millis(), 1));
        }
        return new NodeProcess.Answer(count, millis);
    }

    private void say(String text) {
        System.out.println("demo: " + store + ": " + text);
    }

    private void rate(String what, NodeProcess.Answer answer, long expected) {
        long each = answer.count() * 1000 / Math.max(answer.millis(), 1);
        say(what + ": " + answer.count() + " of " + expected + ", " + each + " a second");
        isRight &= answer.count() == expected;
    }

    private void expect(String what, NodeProcess.Answer answer, long expected) {
        say(what + ": " + answer.count() + " of " + expected);
        isRight &= answer.count() == expected;
    }

    private String resident() throws IOException {
        List<String> all = new ArrayList<>();
        for (NodeProcess node : nodes) {
            all.add(Long.toString(Processes.kib(node.pid(), "VmRSS") >> 10));
        }
        return String.join(", ", all);
    }
}
