package dev.esker;

import java.util.List;

/**
 * A committed batch: changes that became visible together.
 *
 * @param firstSequence the sequence number of the first operation
 * @param sequence the sequence number of the last operation: the position after the batch
 * @param checksum tells batches with the same sequence number apart; not 0
 * @param previous the position before the batch
 * @param previousChecksum the checksum of the batch that ends there; 0 if it is not known
 * @param changes the changes, in order; a key may occur more than once, and the last change counts
 */
public record ChangeBatch(long firstSequence, long sequence, long checksum, long previous,
        long previousChecksum, List<Change> changes) {}
