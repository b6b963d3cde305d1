package dev.esker;

/**
 * Options of a transaction.
 *
 * @param serializable whether reads are checked too; otherwise only written keys are
 * @param pessimistic whether keys are locked when they are used; otherwise the commit checks them
 * @param lockTimeoutMs how long a pessimistic transaction waits for a lock, in milliseconds
 * @param durability what a crash must keep, or null for the store's durability
 * @param attemptsMax how often {@link Esker#transact} runs at most
 */
public record TransactionOptions(boolean serializable, boolean pessimistic, long lockTimeoutMs,
        Durability durability, int attemptsMax) {
    /** Snapshot isolation, optimistic, a thousand attempts. */
    public static final TransactionOptions DEFAULT = new TransactionOptions(false, false, 1000, null, 1000);
    /** The same, but serializable. */
    public static final TransactionOptions SERIALIZABLE = new TransactionOptions(true, false, 1000, null, 1000);
    /** The same as the default, but pessimistic. */
    public static final TransactionOptions PESSIMISTIC = new TransactionOptions(false, true, 1000, null, 1000);
}
