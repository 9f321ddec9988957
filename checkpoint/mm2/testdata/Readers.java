package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;
import org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter;

/** Apache's own readers and writers of MirrorMaker 2's topics. Each line of the standard input is a question. */
public class Readers {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static Map<String, Object> props;
    private static OffsetSyncStore store;

    /** Arguments: brokers, policy class, separator, alias that the identity policy is to know. */
    public static void main(String[] args) throws Exception {
        props = new HashMap<>(Map.of("bootstrap.servers", args[0], "replication.policy.class", args[1],
            "replication.policy.separator", args[2], "source.cluster.alias", args[3]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine())
            answer(line.split(" "));
    }

    private static void say(Object... words) {
        StringBuilder line = new StringBuilder(">");
        for (Object w : words)
            line.append(' ').append(w);
        System.out.println(line);
    }

    private static void answer(String[] q) throws Exception {
        switch (q[0]) {
            case "bytes" -> bytes();
            case "hops" -> say("hops", RemoteClusterUtils.replicationHops(props, q[1]));
            case "heartbeats" -> say("heartbeats", new TreeSet<>(RemoteClusterUtils.heartbeatTopics(props)));
            case "checkpoints" -> say("checkpoints", new TreeSet<>(RemoteClusterUtils.checkpointTopics(props)));
            case "upstream" -> say("upstream", new TreeSet<>(RemoteClusterUtils.upstreamClusters(props)));
            case "translate" -> offsets(RemoteClusterUtils.translateOffsets(props, q[1], q[2], PATIENCE), "translate", q[2]);
            case "regex" -> {
                for (var e : new TreeMap<>(RemoteClusterUtils.translateOffsets(props, q[1], Pattern.compile(q[2]), PATIENCE)).entrySet())
                    offsets(e.getValue(), "regex", e.getKey());
            }
            case "client" -> {
                try (MirrorClient client = new MirrorClient(props)) {
                    offsets(client.remoteConsumerOffsets(q[2], q[1], PATIENCE), "client", q[2]);
                }
            }
            case "format" -> format(q[1], switch (q[2]) {
                case "checkpoint" -> new CheckpointFormatter();
                case "heartbeat" -> new HeartbeatFormatter();
                default -> new OffsetSyncFormatter();
            });
            case "store" -> fill(q[1]);
            case "sync" -> {
                var d = store.translateDownstream("g", new TopicPartition(q[1], Integer.parseInt(q[2])), Long.parseLong(q[3]));
                say("sync", q[3], d.isPresent() ? d.getAsLong() : "none");
            }
            default -> throw new IllegalArgumentException(q[0]);
        }
    }

    private static void offsets(Map<TopicPartition, OffsetAndMetadata> found, String what, String group) {
        Map<String, OffsetAndMetadata> sorted = new TreeMap<>();
        found.forEach((tp, o) -> sorted.put(tp.topic() + "/" + tp.partition(), o));
        sorted.forEach((tp, o) -> say(what, group, tp, o.offset(), "=" + o.metadata()));
    }

    /** What Apache's classes make of the examples. */
    private static void bytes() {
        TopicPartition orders = new TopicPartition("orders", 3), remote = new TopicPartition("A.orders", 3);
        OffsetSync s = new OffsetSync(orders, 1000, 950);
        hex(s.recordKey(), s.recordValue());
        Checkpoint c = new Checkpoint("app1", remote, 1000, 951, "");
        hex(c.recordKey(), c.recordValue());
        Checkpoint m = new Checkpoint("gr", new TopicPartition("t", -1), -1, Long.MIN_VALUE, "\u00e9");
        hex(m.recordKey(), m.recordValue());
        Heartbeat h = new Heartbeat("A", "B", 1700000000000L);
        hex(h.recordKey(), h.recordValue());
    }

    private static void hex(byte[] key, byte[] value) {
        say("bytes", HexFormat.of().formatHex(key), HexFormat.of().formatHex(value));
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(String topic) {
        List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>();
        TopicPartition p = new TopicPartition(topic, 0);
        Map<String, Object> conf = Map.of("bootstrap.servers", props.get("bootstrap.servers"), "enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(conf, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            c.assign(List.of(p));
            c.seekToBeginning(List.of(p));
            long end = c.endOffsets(List.of(p)).get(p);
            while (c.position(p) < end)
                c.poll(Duration.ofMillis(200)).forEach(all::add);
        }
        return all;
    }

    private static void format(String topic, MessageFormatter formatter) {
        for (ConsumerRecord<byte[], byte[]> r : read(topic)) {
            System.out.print("> format ");
            formatter.writeTo(r, new PrintStream(System.out, true));
        }
    }

    /** Feeds the store of MirrorMaker's checkpoint task with what a topic has, as that task does. */
    private static void fill(String topic) {
        List<ConsumerRecord<byte[], byte[]>> all = read(topic);
        store = new OffsetSyncStore() {
            @Override
            void backingStoreStart() {
                all.forEach(this::handleRecord);
            }
        };
        store.start(false);
        say("store", all.size());
    }
}
