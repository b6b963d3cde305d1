package dev.esker.infinispan.demo;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;

/** Ports that nothing listens on. */
final class Ports {
    private Ports() {}

    static List<Integer> free(int count) throws IOException {
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
}
