package dev.esker.kafka.streams.demo;

import dev.esker.ycsb.Processes;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A broker of Kafka in a process of its own, with its own controller. */
final class Broker implements AutoCloseable {
    private final Path directory;
    private final int port;
    private final Process process;

    Broker(Path directory) throws IOException, InterruptedException {
        this.directory = Files.createDirectories(directory);
        List<Integer> ports = Processes.freePorts(2);
        port = ports.get(0);
        int controller = ports.get(1);
        Path properties = directory.resolve("broker.properties");
        Files.writeString(properties, String.join("\n",
                "process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@127.0.0.1:" + controller,
                "listeners=PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:" + controller,
                "controller.listener.names=CONTROLLER", "offsets.topic.replication.factor=1",
                "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
                "group.initial.rebalance.delay.ms=0", "log.dirs=" + directory.resolve("data"), ""));
        Process format = java("kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c",
                properties.toString());
        if (format.waitFor() != 0) {
            throw new IOException("the broker's directory could not be formatted; its log is " + log());
        }
        process = java("kafka.Kafka", properties.toString());
        while (!listens()) {
            if (!process.isAlive()) {
                throw new IOException("the broker has ended; its log is " + log());
            }
            Thread.sleep(200);
        }
    }

    private File log() {
        return directory.resolve("broker.log").toFile();
    }

    private Process java(String... arguments) throws IOException {
        List<String> command = Processes.java("1g");
        command.addAll(List.of(arguments));
        ProcessBuilder.Redirect output = ProcessBuilder.Redirect.appendTo(log());
        return new ProcessBuilder(command).redirectOutput(output).redirectError(output).start();
    }

    private boolean listens() {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return socket.isConnected();
        } catch (IOException notYet) {
            return false;
        }
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
