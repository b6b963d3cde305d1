package dev.esker.infinispan.demo;

import dev.esker.ycsb.Processes;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** A node in a process of its own, which ends with this process. */
final class NodeProcess implements AutoCloseable {
    private final String name;
    private final File log;
    private final Process process;
    private final BufferedReader answers;
    private final PrintStream orders;

    /** What a command did: for how many keys, and in which time. */
    record Answer(long count, long millis) {}

    NodeProcess(String store, Path directory, int number, List<Integer> ports, long kept, boolean purges)
            throws IOException {
        name = "node " + (number + 1);
        log = directory.resolve("node-" + (number + 1) + ".log").toFile();
        List<String> command = Processes.java(System.getProperty("esker.heap", "512m"));
        command.add("-Djava.net.preferIPv4Stack=true");
        properties(number, ports).forEach(property -> command.add("-D" + property));
        command.addAll(List.of(Node.class.getName(), store, directory.resolve("node-" + (number + 1)).toString(),
                Long.toString(kept), Boolean.toString(purges)));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log)).start();
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        orders = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
    }

    /** Returns the settings from which a node knows its own port and those of the others. */
    static List<String> properties(int number, List<Integer> ports) {
        String hosts = IntStream.range(0, ports.size()).mapToObj(at -> "127.0.0.1[" + ports.get(at) + "]")
                .collect(Collectors.joining(","));
        return List.of("esker.port=" + ports.get(number), "esker.hosts=" + hosts);
    }

    /** Waits until it has joined the cluster. */
    NodeProcess ready() throws IOException {
        answer();
        return this;
    }

    private String answer() throws IOException {
        String line = answers.readLine();
        if (line == null) {
            throw new IOException(name + " has ended; its log is " + log);
        }
        return line;
    }

    Answer obey(String order) throws IOException {
        orders.println(order);
        String[] words = answer().split(" ");
        return new Answer(Long.parseLong(words[0]), Long.parseLong(words[1]));
    }

    long pid() {
        return process.pid();
    }

    /** Ends it as SIGKILL does. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() {
        orders.close();
        try {
            if (!process.waitFor(30, java.util.concurrent.TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
