import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints what Kafka's own Java consumer receives, as JSON lines.
 *
 * <p>Usage: {@code java -cp "LIB/*" ConsumerDump.java BOOTSTRAP}, then requests on stdin, one a line: {@code TOPIC
 * PARTITION ISOLATION} (isolation: read_uncommitted or read_committed). The answer to each: one line a record from the
 * log's start to its end (or its last stable offset), then a line with {@code "end"}, the offset where the consumer
 * stopped, or with {@code "error"}. Bytes are base64, null is null. One process serves a whole test session, because
 * starting it costs more than most dumps.
 */
public class ConsumerDump {
    static final ObjectMapper JSON = new ObjectMapper();
    /** An idle consumer that is short of its end offset for this long has lost its broker. */
    static final long PATIENCE_NANOS = Duration.ofSeconds(30).toNanos();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] request = line.trim().split(" ");
            ObjectNode last = JSON.createObjectNode();
            try {
                last.put("end", dump(args[0], new TopicPartition(request[0], Integer.parseInt(request[1])), request[2], out));
            } catch (Exception e) {
                last.put("error", e.toString());
            }
            out.println(last);
            out.flush();
        }
    }

    static long dump(String bootstrap, TopicPartition partition, String isolation, PrintStream out) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("isolation.level", isolation);
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "20");
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            List<TopicPartition> all = List.of(partition);
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long end = consumer.endOffsets(all).get(partition);
            long waitUntil = System.nanoTime() + PATIENCE_NANOS;
            while (consumer.position(partition) < end) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) out.println(json(record));
                if (!records.isEmpty()) waitUntil = System.nanoTime() + PATIENCE_NANOS;
                else if (System.nanoTime() > waitUntil)
                    throw new IllegalStateException("stuck at " + consumer.position(partition) + " of " + end);
            }
            return consumer.position(partition);
        }
    }

    static ObjectNode json(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode()
            .put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("timestampType", record.timestampType().id)
            .put("leaderEpoch", record.leaderEpoch().orElse(null))
            .put("key", record.key())
            .put("value", record.value());
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) headers.addArray().add(header.key()).add(header.value());
        return node;
    }
}
