import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own transactional producers, told what to do line by line.
 *
 * <p>Usage: {@code java -cp "LIB/*" Transactor.java BOOTSTRAP}, then requests on stdin, each answered by {@code ok} or
 * {@code error: why}: {@code begin ID}, {@code send ID TOPIC PARTITION COUNT KEYS BYTES} (returns when all are stored),
 * {@code commit ID}, {@code abort ID}. ID is a transactional id; its producer is made when it is first named. Keys go
 * round {@code key-0} to {@code key-(KEYS-1)}; a value is BYTES long and begins with ID and a running number. A
 * transaction that nobody ends stays open when the process is ended.
 */
public class Transactor {
    public static void main(String[] args) throws Exception {
        Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        long number = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] request = line.trim().split(" ");
            try {
                KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(request[1], id -> producer(args[0], id));
                switch (request[0]) {
                    case "begin" -> producer.beginTransaction();
                    case "commit" -> producer.commitTransaction();
                    case "abort" -> producer.abortTransaction();
                    case "send" -> {
                        List<Future<?>> sent = new ArrayList<>();
                        for (int i = 0; i < Integer.parseInt(request[4]); i++, number++) {
                            byte[] key = ("key-" + number % Integer.parseInt(request[5])).getBytes(StandardCharsets.UTF_8);
                            String text = String.format("%-" + request[6] + "s", request[1] + " " + number);
                            byte[] value = text.getBytes(StandardCharsets.UTF_8);
                            sent.add(producer.send(new ProducerRecord<>(request[2], Integer.parseInt(request[3]), key, value)));
                        }
                        producer.flush();
                        for (Future<?> one : sent) one.get();
                    }
                    default -> throw new IllegalArgumentException(request[0]);
                }
                System.out.println("ok");
            } catch (Exception e) {
                System.out.println("error: " + e);
            }
            System.out.flush();
        }
        // Not closed: that would abort what is open.
        Runtime.getRuntime().halt(0);
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", id);
        config.put("transaction.timeout.ms", "900000");
        config.put("compression.type", "lz4");
        config.put("batch.size", "4000");
        config.put("key.serializer", ByteArraySerializer.class.getName());
        config.put("value.serializer", ByteArraySerializer.class.getName());
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config);
        producer.initTransactions();
        return producer;
    }
}
