import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An instance of the application of {@link KillDemo}: a process that is killed and started again on the
 * same directory, and what it said last.
 */
final class Instance {
    /** What an instance says of the partitions that it has. */
    record State(boolean isRunning, long restored, long sum, long keys, long fewer, long more) {
        private static final Pattern LINE = Pattern.compile(
                "(running|starting) restored (\\d+) sum (\\d+) keys (\\d+) fewer (\\d+) more (\\d+)");
        static final State NONE = new State(false, 0, 0, 0, 0, 0);

        String line() {
            return (isRunning ? "running" : "starting") + " restored " + restored + " sum " + sum + " keys " + keys
                    + " fewer " + fewer + " more " + more;
        }

        /** Returns what both say together; running only if both are. */
        State plus(State other) {
            return new State(isRunning && other.isRunning, restored + other.restored, sum + other.sum,
                    keys + other.keys, fewer + other.fewer, more + other.more);
        }

        static State of(String line) {
            Matcher found = LINE.matcher(line);
            return found.matches()
                    ? new State(found.group(1).equals("running"), number(found, 2), number(found, 3), number(found, 4),
                            number(found, 5), number(found, 6))
                    : NONE;
        }

        private static long number(Matcher found, int group) {
            return Long.parseLong(found.group(group));
        }
    }

    private final List<String> command;
    private final File log;
    private Process process;
    private Thread reader;
    private volatile State state = State.NONE;

    Instance(List<String> command, File log) {
        this.command = command;
        this.log = log;
    }

    /** Starts the process. */
    void start() throws IOException {
        state = State.NONE;
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log)).start();
        Process own = process;
        reader = new Thread(() -> read(own));
        reader.setDaemon(true);
        reader.start();
    }

    private void read(Process own) {
        try (BufferedReader lines = new BufferedReader(
                new InputStreamReader(own.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                state = State.of(line);
            }
        } catch (IOException ended) {
            // Its last line stays.
        }
    }

    /** Returns what the process said last. */
    State state() {
        return state;
    }

    /** Fails if the process has ended by itself. */
    void check() throws IOException {
        if (!process.isAlive()) {
            throw new IOException("an instance ended with exit code " + process.exitValue() + "; see " + log);
        }
    }

    /** Kills the process with SIGKILL, and returns what it said last. */
    State kill() throws Exception {
        new ProcessBuilder("kill", "-9", Long.toString(process.pid())).start().waitFor();
        process.waitFor();
        reader.join();
        return state;
    }

    /** Kills the process, if there is one. */
    void end() {
        if (process != null) {
            process.destroyForcibly();
        }
    }
}
