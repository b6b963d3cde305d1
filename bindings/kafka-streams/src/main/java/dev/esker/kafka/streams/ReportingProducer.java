package dev.esker.kafka.streams;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.KafkaMetric;

/**
 * A producer that notes the offsets of acknowledged records of changelogs, and of committed offsets of
 * sources, and passes them to the stores of its thread after a transaction was committed.
 */
final class ReportingProducer implements Producer<byte[], byte[]> {
    private static final String CHANGELOG_SUFFIX = "-changelog";

    private final Producer<byte[], byte[]> producer;
    /** The last offset of each changelog in this transaction. */
    private final Map<TopicPartition, Long> offsets = new ConcurrentHashMap<>();

    ReportingProducer(Producer<byte[], byte[]> producer) {
        this.producer = producer;
    }

    @Override
    public void initTransactions() {
        producer.initTransactions();
    }

    @Override
    public void beginTransaction() {
        offsets.clear();
        producer.beginTransaction();
    }

    @Override
    public void sendOffsetsToTransaction(Map<TopicPartition, OffsetAndMetadata> consumed,
            ConsumerGroupMetadata group) {
        producer.sendOffsetsToTransaction(consumed, group);
        // A source that is the changelog of a table: the table holds what was consumed.
        consumed.forEach((partition, next) -> offsets.merge(partition, next.offset() - 1, Math::max));
    }

    @Override
    public void commitTransaction() {
        producer.commitTransaction();
        Transactions.committed(offsets);
        offsets.clear();
    }

    @Override
    public void abortTransaction() {
        Transactions.aborted();
        offsets.clear();
        producer.abortTransaction();
    }

    @Override
    public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record) {
        return send(record, null);
    }

    @Override
    public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
        if (!record.topic().endsWith(CHANGELOG_SUFFIX)) {
            return producer.send(record, callback);
        }
        return producer.send(record, (metadata, failed) -> {
            if (failed == null && metadata.hasOffset()) {
                offsets.merge(new TopicPartition(metadata.topic(), metadata.partition()), metadata.offset(),
                        Math::max);
            }
            if (callback != null) {
                callback.onCompletion(metadata, failed);
            }
        });
    }

    @Override
    public void flush() {
        producer.flush();
    }

    @Override
    public List<PartitionInfo> partitionsFor(String topic) {
        return producer.partitionsFor(topic);
    }

    @Override
    public Map<MetricName, ? extends Metric> metrics() {
        return producer.metrics();
    }

    @Override
    public void registerMetricForSubscription(KafkaMetric metric) {
        producer.registerMetricForSubscription(metric);
    }

    @Override
    public void unregisterMetricFromSubscription(KafkaMetric metric) {
        producer.unregisterMetricFromSubscription(metric);
    }

    @Override
    public Uuid clientInstanceId(Duration timeout) {
        return producer.clientInstanceId(timeout);
    }

    @Override
    public void close() {
        producer.close();
    }

    @Override
    public void close(Duration timeout) {
        producer.close(timeout);
    }
}
