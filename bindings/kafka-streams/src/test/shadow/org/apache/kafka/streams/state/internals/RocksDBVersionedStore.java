package org.apache.kafka.streams.state.internals;

import dev.esker.kafka.streams.EskerVersionedStore;
import java.util.Collection;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/** In the place of Kafka's class of this name, for Kafka's own tests of it alone. */
public class RocksDBVersionedStore extends EskerVersionedStore {
    RocksDBVersionedStore(String name, String scope, long historyMs, long segmentMs) {
        super(name, historyMs);
    }

    VersionedRecordIterator<byte[]> get(Bytes key, long from, long to, ResultOrder order) {
        return versions(key, from, to, order);
    }

    void restoreBatch(Collection<ConsumerRecord<byte[], byte[]>> records) {
        restore(records);
    }
}
