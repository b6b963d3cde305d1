/**
 * Esker, an embedded, durable, ordered key-value store, for Java 17.
 *
 * <p>{@link dev.esker.Esker} opens a store. All objects that hold native memory are
 * {@link java.lang.AutoCloseable}. A call on a closed object throws an
 * {@link dev.esker.EskerException}; it never ends the virtual machine.
 */
package dev.esker;
