package dev.esker;

import java.util.List;

/**
 * The identity of a store, and the stores that it descends from.
 *
 * @param storeId its identity
 * @param name the name that it got as a fork; null if it has none
 * @param ancestors the stores that it descends from, the parent first
 */
public record Lineage(long storeId, String name, List<Ancestor> ancestors) {
    /**
     * A store that a fork descends from.
     *
     * @param storeId its identity
     * @param name its name as a fork; null if it has none
     * @param sequence its sequence number at the fork
     */
    public record Ancestor(long storeId, String name, long sequence) {}
}
