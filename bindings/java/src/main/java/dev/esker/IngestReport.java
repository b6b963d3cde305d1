package dev.esker;

/**
 * What an ingest did.
 *
 * @param sequence the sequence number of all entries; 0 if there was none
 * @param files the number of tables that were installed
 * @param entries the number of entries in them
 * @param bytes the bytes of the tables
 * @param flushed whether the call waited for a flush of what was written before
 */
public record IngestReport(long sequence, long files, long entries, long bytes, boolean flushed) {}
