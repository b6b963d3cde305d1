package dev.esker.ycsb;

import java.util.Map;
import java.util.Properties;

/** YCSB's core workloads A to F (Cooper et al., SoCC 2010) as properties. */
final class Workloads {
    private static final Map<Character, String> SHARES = Map.of(
            'a', "read=0.5 update=0.5 zipfian",
            'b', "read=0.95 update=0.05 zipfian",
            'c', "read=1 zipfian",
            'd', "read=0.95 insert=0.05 latest",
            'e', "scan=0.95 insert=0.05 zipfian",
            'f', "read=0.5 readmodifywrite=0.5 zipfian");
    private static final String[] KINDS = {"read", "update", "insert", "scan", "readmodifywrite"};

    private Workloads() {}

    /** Returns whether a workload inserts records, which a read may be asked for at once. */
    static boolean inserts(char letter) {
        return SHARES.get(letter).contains("insert");
    }

    /**
     * Returns the properties of a phase. Values follow from their keys, so that reads can be checked, and a
     * write is of all fields.
     */
    static Properties of(char letter, Request request, long records, long operations) {
        String shares = SHARES.get(letter);
        if (shares == null) {
            throw new IllegalArgumentException("YCSB has no workload \"" + letter + "\"; it has a to f");
        }
        Properties properties = new Properties();
        for (String kind : KINDS) {
            properties.setProperty(kind + "proportion", "0");
        }
        for (String word : shares.split(" ")) {
            String[] share = word.split("=");
            if (share.length == 2) {
                properties.setProperty(share[0] + "proportion", share[1]);
            } else {
                properties.setProperty("requestdistribution", word);
            }
        }
        properties.setProperty("maxscanlength", "100");
        properties.setProperty("writeallfields", "true");
        properties.putAll(request.properties());
        properties.setProperty("dataintegrity", "true");
        properties.setProperty("recordcount", Long.toString(records));
        properties.setProperty("operationcount", Long.toString(operations));
        properties.setProperty("measurementtype", "hdrhistogram");
        return properties;
    }
}
