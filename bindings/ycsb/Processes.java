package dev.esker.ycsb;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** What the processes of a system need: how Java is called, ports, and what memory they use. */
public final class Processes {
    private Processes() {}

    /** Returns the start of a command for this Java with this class path. The class and its arguments follow. */
    public static List<String> java(String heap) {
        return new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx" + heap, "-cp", System.getProperty("java.class.path")));
    }

    /** Returns different ports of the loopback interface that nothing listens on. */
    public static List<Integer> freePorts(int count) throws IOException {
        List<ServerSocket> sockets = new ArrayList<>();
        try {
            for (int at = 0; at < count; at++) {
                sockets.add(new ServerSocket(0, 1, InetAddress.getLoopbackAddress()));
            }
            return sockets.stream().map(ServerSocket::getLocalPort).toList();
        } finally {
            for (ServerSocket socket : sockets) {
                socket.close();
            }
        }
    }

    /** Returns the memory of a process in KiB: {@code VmRSS} is resident now, {@code VmHWM} was so at most. */
    public static long kib(long process, String what) throws IOException {
        try (Stream<String> lines = Files.lines(Path.of("/proc/" + process + "/status"))) {
            return lines.filter(line -> line.startsWith(what + ":"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
        }
    }
}
