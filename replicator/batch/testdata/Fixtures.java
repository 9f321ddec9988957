import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;

/**
 * Writes the files of testdata/java with Apache Kafka's own classes: NAME.bin are the bytes as a broker keeps them,
 * NAME.txt is what Kafka's reader makes of them. See README.md for the command.
 */
public class Fixtures {
    static final long[] OFFSETS = {100, 101, 103, 104}; // 102 was compacted away
    static final long[] TIMES = {1500000000000L, -1, 0, 1500000000003L};
    static final byte[][] KEYS = {b("k1"), null, b(""), b("k4")};
    static final byte[][] VALUES = {b("v1"), b(""), null, b("lockstep ".repeat(200))};

    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]);
        for (byte magic = 0; magic <= 2; magic++) {
            for (CompressionType type : CompressionType.values()) {
                if (type == CompressionType.ZSTD && magic < 2) continue;
                String name = "v" + magic + "-" + type.name;
                write(dir, name, build(magic, type, TimestampType.CREATE_TIME, RecordBatch.NO_TIMESTAMP));
                if (magic > 0)
                    write(dir, name + "-append", build(magic, type, TimestampType.LOG_APPEND_TIME, 1600000000000L));
            }
        }
        write(dir, "v2-horizon", horizon());
        for (ControlRecordType kind : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(7, 1600000000000L, 3, 4711L, (short) 5,
                new EndTransactionMarker(kind, 9));
            write(dir, "v2-" + kind.name().toLowerCase(), marker.buffer());
        }
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 4711L, (short) 5, 17, 100, 104, 3,
            TimestampType.CREATE_TIME, 1500000000003L, true, false);
        empty.flip();
        write(dir, "v2-empty", empty);
    }

    static ByteBuffer build(byte magic, CompressionType type, TimestampType time, long appendTime) {
        MemoryRecordsBuilder w = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(type).build(), time, OFFSETS[0], appendTime);
        for (int i = 0; i < OFFSETS.length; i++) {
            // The builder refuses times before 1970 other than -1, which stands for "none".
            w.appendWithOffset(OFFSETS[i], TIMES[i], KEYS[i], VALUES[i], magic < 2 ? new Header[0] : headers(i));
        }
        MemoryRecords done = w.build();
        if (magic == 2) done.batches().iterator().next().setPartitionLeaderEpoch(3);
        return done.buffer();
    }

    static ByteBuffer horizon() {
        MemoryRecordsBuilder w = new MemoryRecordsBuilder(
            new org.apache.kafka.common.utils.ByteBufferOutputStream(1 << 16), (byte) 2, Compression.lz4().build(),
            TimestampType.CREATE_TIME, OFFSETS[0], RecordBatch.NO_TIMESTAMP, 4711L, (short) 5, 17, true, false, 3,
            1 << 16, 1700000000000L);
        for (int i = 0; i < OFFSETS.length; i++)
            w.appendWithOffset(OFFSETS[i], TIMES[i], KEYS[i], VALUES[i], headers(i));
        return w.build().buffer();
    }

    static Header[] headers(int i) {
        Header[] all = {new RecordHeader("a", b("1")), new RecordHeader("a", (byte[]) null),
            new RecordHeader("", b("")), new RecordHeader("\u00e9", b("2"))};
        return java.util.Arrays.copyOf(all, i + 1);
    }

    static void write(Path dir, String name, ByteBuffer buffer) throws Exception {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        Files.write(dir.resolve(name + ".bin"), bytes);
        StringBuilder text = new StringBuilder();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            for (org.apache.kafka.common.record.Record r : batch) {
                text.append(r.offset()).append(' ').append(r.timestamp());
                text.append(' ').append(hex(r.key())).append(' ').append(hex(r.value()));
                for (Header h : r.headers())
                    text.append(' ').append(hex(ByteBuffer.wrap(h.key().getBytes(StandardCharsets.UTF_8)))).append('=')
                        .append(hex(h.value() == null ? null : ByteBuffer.wrap(h.value())));
                text.append('\n');
            }
        }
        Files.writeString(dir.resolve(name + ".txt"), text);
    }

    static String hex(ByteBuffer b) {
        if (b == null) return "null";
        byte[] bytes = new byte[b.remaining()];
        b.duplicate().get(bytes);
        return '"' + HexFormat.of().formatHex(bytes) + '"';
    }

    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }
}
