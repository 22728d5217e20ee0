import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** The records of a file as objects, and Apache Kafka's own builder that makes batches of them. */
final class WriterBench {
    private record Batch(long baseOffset, int leaderEpoch, List<SimpleRecord> records) {}

    private final List<Batch> batches = new ArrayList<>();
    private final ByteBuffer out;

    WriterBench(byte[] file) {
        int largest = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(file)).batches()) {
            List<SimpleRecord> records = new ArrayList<>();
            for (Record record : batch) {
                records.add(copy(record));
            }
            batches.add(new Batch(batch.baseOffset(), batch.partitionLeaderEpoch(), records));
            largest = Math.max(largest, batch.sizeInBytes());
        }
        // Room for Kafka's upper bound as well, so that the buffer never grows.
        out = ByteBuffer.allocate(2 * largest);
    }

    private static SimpleRecord copy(Record record) {
        Header[] headers = record.headers();
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader(headers[i].key(), headers[i].value());
        }
        return new SimpleRecord(record.timestamp(), bytes(record.key()), bytes(record.value()), headers);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /** Encodes one batch into the buffer that is used again. */
    private MemoryRecords encode(Batch batch) {
        out.clear();
        MemoryRecordsBuilder builder = MemoryRecords.builder(out, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
            TimestampType.CREATE_TIME, batch.baseOffset(), RecordBatch.NO_TIMESTAMP, batch.leaderEpoch());
        for (SimpleRecord record : batch.records()) {
            builder.append(record);
        }
        return builder.build();
    }

    String pass() {
        long bytes = 0;
        long start = System.nanoTime();
        for (Batch batch : batches) {
            bytes += encode(batch).sizeInBytes();
        }
        return (System.nanoTime() - start) + " " + bytes;
    }

    String write(Path path) throws IOException {
        long bytes = 0;
        try (OutputStream stream = Files.newOutputStream(path)) {
            WritableByteChannel channel = Channels.newChannel(stream);
            for (Batch batch : batches) {
                bytes += channel.write(encode(batch).buffer());
            }
        }
        return "ok " + bytes;
    }
}
