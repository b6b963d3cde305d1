package dev.esker;

import java.util.List;

/**
 * A committed batch, or a part of one: changes that became visible together.
 *
 * <p>The pairs of an ingest come in parts of about 1 MiB; all other batches are whole. A reader applies
 * all parts of a batch or none, and confirms its position after the last part. When it begins again
 * before that, the feed begins with the first part.
 *
 * @param firstSequence the sequence number of the first operation
 * @param sequence the sequence number of the last operation: the position after the batch
 * @param checksum tells batches with the same sequence number apart; not 0
 * @param previous the position before the batch
 * @param previousChecksum the checksum of the batch that ends there; 0 if it is not known
 * @param part the number of this part of the batch, from 0 on; the parts have equal sequence numbers and
 *     checksums
 * @param continues whether more parts of the same batch follow
 * @param changes the changes, in order; a key may occur more than once, and the last change counts
 */
public record ChangeBatch(long firstSequence, long sequence, long checksum, long previous,
        long previousChecksum, long part, boolean continues, List<Change> changes) {}
