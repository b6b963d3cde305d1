package dev.esker;

/**
 * A snapshot and its position in the change feed: it has every batch up to the position, and no later
 * one.
 *
 * @param snapshot the snapshot, which should be closed
 * @param position its position
 */
public record PositionedSnapshot(Snapshot snapshot, long position) {}
