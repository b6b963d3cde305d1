/**
 * State stores for Kafka Streams on Esker. {@link dev.esker.kafka.streams.EskerDslStoreSuppliers}
 * makes the DSL use them, and {@link dev.esker.kafka.streams.EskerClientSupplier} keeps them valid
 * under exactly-once when a process is killed.
 */
package dev.esker.kafka.streams;
