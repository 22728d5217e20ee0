import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;

/** Apache Kafka's own code as a peer; ../src/child.rs has the protocol. */
public final class PeerBench {
    private static final int SIZE_AT = 8;
    private static final int BEFORE_SIZE_COUNTS = 12;

    private final BufferSupplier buffers = BufferSupplier.create();
    private byte[] file = {};
    private WriterBench writer;

    public static void main(String[] args) throws IOException {
        PeerBench bench = new PeerBench();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            System.out.println(switch (words[0]) {
                case "pass" -> bench.pass();
                case "encode" -> bench.writer().pass();
                case "write" -> bench.writer().write(Path.of(words[1]));
                default -> bench.load(words);
            });
            System.out.flush();
        }
    }

    private String load(String[] words) throws IOException {
        byte[] whole = Files.readAllBytes(Path.of(words[1]));
        long limit = Long.parseLong(words[2]) << 20;
        ByteBuffer view = ByteBuffer.wrap(whole);
        int end = 0;
        while (end < whole.length && end < limit) {
            end += BEFORE_SIZE_COUNTS + view.getInt(end + SIZE_AT);
        }
        file = Arrays.copyOf(whole, end);
        writer = null;
        return "ok " + end;
    }

    private WriterBench writer() {
        if (writer == null) {
            writer = new WriterBench(file);
        }
        return writer;
    }

    private String pass() {
        long records = 0, keys = 0, values = 0, headerKeys = 0, headerValues = 0, offsets = 0, timestamps = 0;
        long start = System.nanoTime();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(file)).batches()) {
            batch.ensureValid();
            try (var iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    records++;
                    offsets += record.offset();
                    timestamps += record.timestamp();
                    keys += record.hasKey() ? record.keySize() : 0;
                    values += record.hasValue() ? record.valueSize() : 0;
                    for (Header header : record.headers()) {
                        headerKeys += header.key().length();
                        headerValues += header.value() == null ? 0 : header.value().length;
                    }
                }
            }
        }
        long time = System.nanoTime() - start;
        return time + " " + records + " " + keys + " " + values + " " + headerKeys + " " + headerValues + " " + offsets
            + " " + timestamps;
    }
}
