import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads the next records of a group: brokers, group, protocol, how many, whether to commit, topics. */
public class Consume {
    public static void main(String[] args) {
        int left = Integer.parseInt(args[3]);
        boolean commit = Boolean.parseBoolean(args[4]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[1]);
        p.put("group.protocol", args[2]);
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        p.put("isolation.level", "read_committed");
        p.put("max.poll.records", args[3]);
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        long end = System.nanoTime() + Duration.ofSeconds(80).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[5].split(",")));
            while (left > 0) {
                if (System.nanoTime() > end)
                    throw new IllegalStateException("no more records, " + left + " are missing; assigned " + consumer.assignment());
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    if (left-- <= 0)
                        break;
                    String value = r.value() == null ? "" : Base64.getEncoder().encodeToString(r.value());
                    next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                    System.out.println("> " + r.topic() + " " + r.partition() + " " + r.offset() + " =" + value);
                }
            }
            if (commit)
                consumer.commitSync(next); // behind what was printed, which may be less than what was fetched
        }
    }
}
