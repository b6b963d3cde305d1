package dev.esker.ycsb;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import site.ycsb.ClientThread;
import site.ycsb.DB;
import site.ycsb.measurements.Measurements;
import site.ycsb.measurements.exporter.MeasurementsExporter;
import site.ycsb.workloads.CoreWorkload;

/**
 * One round of an experiment: reads a {@link Request}, starts a place, runs the phases on it with YCSB's own
 * generators and client threads, and writes a line of JSON for each phase. It ends, with the processes that it
 * has started, when its standard input does, so that nothing outlives the laboratory.
 *
 * <p>A value follows from its record and field, so that each value that is read is checked. An update writes the
 * same value again, so that a lost update is not seen. Scans are checked by their length, their order and the
 * fields of their records.
 */
public final class Round {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Request request;
    private final Place place;
    private final PrintStream out;
    private long records;
    private long wrongBefore;

    private Round(Request request, Place place, PrintStream out) {
        this.request = request;
        this.place = place;
        this.out = out;
    }

    /** Starts a place for a request. */
    public interface Starter {
        /** Starts it in the directory of the request. */
        Place start(Request request) throws Exception;
    }

    /** Runs the round that is described on standard input, and ends the process. */
    public static void run(Starter starter) throws Exception {
        // Others may print to standard output, which is only for the lines of the round.
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line = in.readLine();
        if (line == null) {
            System.err.println("expected a round's description as a line of JSON on standard input");
            System.exit(2);
        }
        Request request = JSON.readValue(line, Request.class);
        Runtime.getRuntime().addShutdownHook(new Thread(Round::endOthers));
        endWith(in);
        try (Place place = starter.start(request)) {
            new Round(request, place, out).all();
        } catch (Exception failed) {
            failed.printStackTrace();
            System.exit(1);
        }
        out.flush();
        System.exit(0);
    }

    /** Ends the process, and those that it has started, when its standard input ends. */
    private static void endWith(BufferedReader in) {
        Thread watch = new Thread(() -> {
            try {
                while (in.readLine() != null) {
                    // Nothing else is asked of a round.
                }
            } catch (IOException ended) {
                System.err.println("the laboratory has ended: " + ended);
            }
            endOthers();
            Runtime.getRuntime().halt(1);
        }, "ends with the laboratory");
        watch.setDaemon(true);
        watch.start();
    }

    private static void endOthers() {
        ProcessHandle.current().descendants().forEach(ProcessHandle::destroyForcibly);
    }

    private void all() throws Exception {
        write(Map.of("about", place.about()));
        for (String phase : request.phases()) {
            if (!phase.matches("ycsb (load )?[a-f]")) {
                throw new IllegalArgumentException("unknown phase " + phase + "; there are \"ycsb load a\" and \"ycsb a\""
                        + " to \"ycsb f\"");
            }
            String why = place.whyNot(phase.charAt(phase.length() - 1));
            Map<String, Object> line = why == null ? measured(phase) : new LinkedHashMap<>(Map.of("not_available", why));
            line.put("phase", phase);
            write(line);
        }
    }

    private void write(Map<String, ?> line) throws IOException {
        out.println(JSON.writeValueAsString(line));
        out.flush();
    }

    private Map<String, Object> measured(String phase) throws Exception {
        boolean isLoad = phase.contains(" load ");
        char letter = phase.charAt(phase.length() - 1);
        if (isLoad && records > 0) {
            throw new IllegalArgumentException(phase + " needs an empty place, and there are " + records + " records");
        }
        long operations = isLoad ? request.entries() : request.operations();
        long before = isLoad ? request.entries() : records;
        if (before == 0) {
            throw new IllegalArgumentException(phase + " needs a load before it");
        }
        Properties properties = Workloads.of(letter, request, before, operations);
        properties.setProperty("insertcount", Long.toString(before));
        Measurements.setProperties(properties);
        Calls calls = new Calls();
        CoreWorkload workload = new CoreWorkload() {
            @Override
            public void doTransactionReadModifyWrite(DB db) {
                calls.readModifyWrite(() -> super.doTransactionReadModifyWrite(db));
            }
        };
        workload.init(properties);
        int fields = Integer.parseInt(properties.getProperty("fieldcount", "10"));
        List<ClientThread> clients = new ArrayList<>();
        CountDownLatch done = new CountDownLatch(request.threads());
        resetPeaks();
        for (int thread = 0; thread < request.threads(); thread++) {
            long own = operations / request.threads() + (thread < operations % request.threads() ? 1 : 0);
            if (own == 0) {
                // YCSB takes 0 as no limit.
                continue;
            }
            ClientThread client = new ClientThread(new TimedDb(place.client(), calls, fields), !isLoad, workload, properties,
                    Math.toIntExact(own), 0, done);
            client.setThreadId(thread);
            client.setThreadCount(request.threads());
            clients.add(client);
        }
        List<Thread> threads = clients.stream().map(Thread::new).toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        place.settle();
        double seconds = calls.seconds();
        records = isLoad ? request.entries() : records + calls.good("INSERT");
        long ran = clients.stream().mapToLong(ClientThread::getOpsDone).sum();
        Map<String, Object> line = line(calls, ran, seconds);
        String error = error(calls, ran, operations,
                isLoad || place.findsOwnWrites() || !Workloads.inserts(letter));
        if (error != null) {
            line.put("error", error);
        }
        return line;
    }

    private Map<String, Object> line(Calls calls, long done, double seconds) throws Exception {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("operations", done);
        line.put("seconds", seconds);
        line.put("tenths", calls.tenths());
        line.put("latency", calls.latency());
        line.put("kinds", calls.byKind());
        if (calls.count("READ") > 0) {
            line.put("found", calls.good("READ"));
        }
        long wrong = wrongReads();
        line.put("wrong", wrong - wrongBefore);
        wrongBefore = wrong;
        line.put("peak_memory_bytes", peakMemory());
        line.put("disk_bytes", bytesBelow(place.data(Path.of(request.directory()))));
        return line;
    }

    private String error(Calls calls, long done, long operations, boolean findsAll) throws Exception {
        long missing = calls.count("READ") - calls.good("READ");
        if (calls.failed() > 0) {
            return calls.failed() + " calls failed; standard error has the first causes";
        }
        if (done != operations) {
            return done + " operations ran, expected " + operations;
        }
        if (findsAll && missing > 0) {
            return missing + " reads did not find their record";
        }
        long found = place.records();
        return found == records ? null : "found " + found + " records, expected " + records;
    }

    /** Counts the reads so far whose values were not what was written. */
    private static long wrongReads() throws IOException {
        long[] wrong = {0};
        Measurements.getMeasurements().exportMeasurements(new MeasurementsExporter() {
            private void add(String metric, String measure, long count) {
                if (metric.equals("VERIFY") && measure.equals("Return=UNEXPECTED_STATE")) {
                    wrong[0] += count;
                }
            }

            @Override
            public void write(String metric, String measure, int count) {
                add(metric, measure, count);
            }

            @Override
            public void write(String metric, String measure, long count) {
                add(metric, measure, count);
            }

            @Override
            public void write(String metric, String measure, double value) {}

            @Override
            public void close() {}
        });
        return wrong[0];
    }

    /** Lets the greatest resident memory of each process count from now on. */
    private void resetPeaks() throws IOException {
        for (long process : place.processes()) {
            Files.writeString(Path.of("/proc/" + process + "/clear_refs"), "5");
        }
    }

    /** Sums the greatest resident memory of each process during the phase. */
    private long peakMemory() throws IOException {
        long kib = 0;
        for (long process : place.processes()) {
            kib += Processes.kib(process, "VmHWM");
        }
        return kib * 1024;
    }

    private static long bytesBelow(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.mapToLong(file -> {
                try {
                    return Files.isRegularFile(file) ? Files.size(file) : 0;
                } catch (IOException gone) {
                    return 0;
                }
            }).sum();
        } catch (java.io.UncheckedIOException gone) {
            return 0;
        }
    }
}
