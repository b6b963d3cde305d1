package dev.esker;

/**
 * Result of {@link Esker#rekey}.
 *
 * @param from the name of the master key before
 * @param to the name of the master key now
 * @param dataKeys the number of data keys that files of the store still need, without the new one
 * @param removedDataKeys the number of data keys that no file needed, and that were removed
 */
public record RekeyReport(String from, String to, long dataKeys, long removedDataKeys) {}
