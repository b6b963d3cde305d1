package dev.esker;

/**
 * A slot: a durable position in the change feed of a store. The store keeps the logs with the changes
 * that the reader of the slot has not confirmed, also while it is closed. Many threads may use it.
 */
public final class Slot {
    private final Esker store;
    private final String name;

    Slot(Esker store, String name) {
        this.store = store;
        this.name = name;
    }

    /**
     * Returns the name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns the position that was confirmed last, or that the slot began with.
     *
     * @return a sequence number
     * @throws EskerException {@code NOT_FOUND}, with the reason, if the slot was dropped
     */
    public long position() {
        return Native.slotPosition(store, store.handle(), Native.utf8(name));
    }

    /**
     * Returns the changes after the confirmed position.
     *
     * @return a new feed, which should be closed
     */
    public Changes changes() {
        long position = position();
        return new Changes(store, Native.changes(store, store.handle(), Native.utf8(name), 0), position);
    }

    /**
     * Confirms every batch up to a position, durably: the slot does not return them again, and their
     * logs may be removed. A position at or before the confirmed one changes nothing.
     *
     * @param position the {@link ChangeBatch#sequence} of a batch of which the last part was returned
     * @throws EskerException {@code INVALID_ARGUMENT} for a position after the newest write
     */
    public void confirm(long position) {
        Native.confirm(store, store.handle(), Native.utf8(name), position);
    }

    /** Removes the slot, and the logs that only it needed. */
    public void drop() {
        store.dropSlot(name);
    }

    /**
     * The state of a slot.
     *
     * @param name its name
     * @param position the position that its reader has confirmed; 0 if it is damaged
     * @param lagBytes bytes of logs that are kept only for this slot and for slots that lag less
     * @param lagLimitBytes the maximum of these bytes; -1 for none
     * @param problem why the slot keeps no logs any more, as a sentence; null if it does
     */
    public record Info(String name, long position, long lagBytes, long lagLimitBytes, String problem) {}
}
