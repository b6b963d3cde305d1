package dev.esker.ycsb;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Lines over time as an SVG file: panels one below the other with the same axis of time, and marks at
 * moments. A line has the same colour in all panels.
 */
public final class Picture {
    private static final int WIDTH = 900;
    private static final int LEFT = 90;
    private static final int RIGHT = 20;
    private static final int TOP = 60;
    private static final int PANEL = 190;
    private static final int GAP = 60;
    private static final int STEPS = 4;
    private static final String[] COLOURS = {"#d9622b", "#3b6fb6", "#3f9d63", "#8a5bb5", "#a67c00", "#2a8c8c"};

    /** A value at a moment, or a gap of the line. */
    private record Point(double seconds, double value, boolean isGap) {}

    /** A moment of a line at which something happened. */
    private record Mark(String line, double seconds) {}

    /** A panel: what its values are, and its lines. */
    private record Panel(String what, Map<String, List<Point>> lines) {}

    private final String title;
    private final String marked;
    private final List<Panel> panels = new ArrayList<>();
    private final List<Mark> marks = new ArrayList<>();
    private final List<String> names = new ArrayList<>();

    /** Creates a picture with panels for these values. {@code marked} says what the marks are. */
    public Picture(String title, String marked, String... values) {
        this.title = title;
        this.marked = marked;
        for (String what : values) {
            panels.add(new Panel(what, new LinkedHashMap<>()));
        }
    }

    /** Adds a value to a line of a panel. */
    public synchronized void add(int panel, String line, double seconds, double value) {
        if (!names.contains(line)) {
            names.add(line);
        }
        panels.get(panel).lines.computeIfAbsent(line, name -> new ArrayList<>()).add(new Point(seconds, value, false));
    }

    /** Ends a line in a panel: the next value begins another part of it. */
    public synchronized void pause(int panel, String line) {
        List<Point> points = panels.get(panel).lines.get(line);
        if (points != null) {
            points.add(new Point(0, 0, true));
        }
    }

    /** Marks a moment of a line in every panel. */
    public synchronized void mark(String line, double seconds) {
        marks.add(new Mark(line, seconds));
    }

    /** Writes the picture. */
    public synchronized void save(Path file) throws IOException {
        double end = panels.stream().flatMap(panel -> panel.lines.values().stream()).flatMap(List::stream)
                .mapToDouble(Point::seconds).max().orElse(1);
        int height = TOP + panels.size() * (PANEL + GAP);
        StringBuilder svg = new StringBuilder();
        out(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
                + "font-size=\"13\">\n<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                WIDTH, height, escape(title));
        out(svg, "<text x=\"%d\" y=\"22\" font-size=\"16\" font-weight=\"bold\">%s</text>\n", LEFT, escape(title));
        int at = LEFT;
        for (String name : names) {
            out(svg, "<rect x=\"%d\" y=\"33\" width=\"14\" height=\"4\" fill=\"%s\"/><text x=\"%d\" y=\"40\">%s</text>\n",
                    at, colour(name), at + 20, escape(name));
            at += 40 + 8 * name.length();
        }
        if (!marks.isEmpty()) {
            out(svg, "<text x=\"%d\" y=\"40\" fill=\"#6b7280\">triangles: %s</text>\n", at, escape(marked));
        }
        for (int number = 0; number < panels.size(); number++) {
            draw(svg, panels.get(number), TOP + number * (PANEL + GAP) + 20, end);
        }
        out(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">seconds</text>\n</svg>\n", WIDTH - RIGHT, height - 6);
        Files.writeString(file, svg);
    }

    private void draw(StringBuilder svg, Panel panel, int top, double end) {
        double most = panel.lines.values().stream().flatMap(List::stream).mapToDouble(Point::value).max().orElse(1);
        double step = nice(most / STEPS);
        double high = Math.max(step, Math.ceil(most / step) * step);
        out(svg, "<text x=\"%d\" y=\"%d\">%s</text>\n", LEFT, top - 8, escape(panel.what));
        for (double value = 0; value <= high + step / 2; value += step) {
            double y = top + PANEL * (1 - value / high);
            out(svg, "<path d=\"M%d %.1fH%d\" stroke=\"#d4d4d8\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                    LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, number(value));
        }
        double wide = nice(end / 8);
        for (double second = 0; second <= end; second += wide) {
            out(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x(second, end), top + PANEL + 18,
                    number(second));
        }
        panel.lines.forEach((name, points) -> {
            StringBuilder path = new StringBuilder();
            boolean begins = true;
            for (Point point : points) {
                if (!point.isGap) {
                    out(path, "%s%.1f %.1f", begins ? "M" : "L", x(point.seconds, end),
                            top + PANEL * (1 - point.value / high));
                }
                begins = point.isGap;
            }
            out(svg, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path, colour(name));
        });
        for (Mark mark : marks) {
            double x = x(mark.seconds, end);
            out(svg, "<path d=\"M%.1f %dl-5 9h10z\" fill=\"%s\"/>\n", x, top + PANEL - 4, colour(mark.line));
        }
    }

    private String colour(String name) {
        return COLOURS[Math.max(names.indexOf(name), 0) % COLOURS.length];
    }

    private static double x(double seconds, double end) {
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / Math.max(end, 1e-9);
    }

    /** Returns the smallest of 1, 2 and 5 times a power of ten that is not below a value. */
    private static double nice(double value) {
        double power = Math.pow(10, Math.floor(Math.log10(Math.max(value, 1e-9))));
        for (int factor : new int[] {1, 2, 5}) {
            if (factor * power >= value) {
                return factor * power;
            }
        }
        return 10 * power;
    }

    private static String number(double value) {
        return value == Math.rint(value)
                ? String.format(Locale.ROOT, "%,d", (long) value) : String.format(Locale.ROOT, "%.3g", value);
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;");
    }

    private static void out(StringBuilder to, String format, Object... values) {
        to.append(String.format(Locale.ROOT, format, values));
    }
}
