package dev.esker;

/**
 * What a fork shares with its parent.
 *
 * @param storeId the identity of the fork
 * @param linkedFiles the number of tables that both share by hard links
 * @param linkedBytes the size of these tables
 * @param copiedFiles the number of tables that could not be linked
 * @param copiedBytes the size of these tables
 */
public record ForkReport(long storeId, long linkedFiles, long linkedBytes, long copiedFiles, long copiedBytes) {}
