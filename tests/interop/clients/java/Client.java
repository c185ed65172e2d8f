// Apache Kafka's Java client behind the command line of ../README.md; compiles against every version since 2.1.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Client {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "RangeAssignor",
            "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");

    public static void main(String[] line) throws Exception {
        String[] args = line;
        if (line[0].startsWith("--security=")) {
            Security.read(line[0].substring(line[0].indexOf('=') + 1));
            args = Arrays.copyOfRange(line, 1, line.length);
        }
        switch (args[0]) {
            case "consume": consume(args[1], args[2], args[3], args[4], args[5]); break;
            case "produce": produce(args[1], args[2], args[3]); break;
            case "read": read(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4])); break;
            case "discover": discover(args[1], args[2], args[3], Integer.parseInt(args[4])); break;
            case "admin": new Admin(args[1], args[2], args[3], args[4], Long.parseLong(args[5])).round(); break;
            default: throw new IllegalArgumentException(args[0]);
        }
    }

    // Consuming in a group

    private static void consume(String bootstrap, String group, String topic, String strategy, String instance)
            throws Exception {
        Properties options = reader(bootstrap);
        options.put("group.id", group);
        options.put("auto.commit.interval.ms", "200");
        options.put("metadata.max.age.ms", "1000");
        if (strategy.equals("consumer")) {
            options.put("group.protocol", "consumer");
        } else {
            // a static one's session outlives its restart
            options.put("session.timeout.ms", instance.equals("-") ? "6000" : "30000");
            options.put("heartbeat.interval.ms", "500");
        }
        if (ASSIGNORS.containsKey(strategy)) {
            options.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + ASSIGNORS.get(strategy));
        }
        if (!instance.equals("-")) {
            options.put("group.instance.id", instance);
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options);
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                polling.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(Collections.singleton(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                say("{\"gave_up\": " + numbers(partitions) + ", \"at\": " + System.currentTimeMillis() + "}");
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                say("{\"gained\": " + numbers(partitions) + ", \"at\": " + System.currentTimeMillis() + "}");
            }
        });
        try {
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    say("{\"read\": [" + record.partition() + ", " + record.offset() + "]}");
                }
            }
        } catch (WakeupException stop) {
            consumer.close();
            say("{\"left\": true}");
        }
    }

    private static void discover(String bootstrap, String group, String prefix, int count) {
        Properties options = reader(bootstrap);
        options.put("group.id", group);
        options.put("metadata.max.age.ms", "1000");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options)) {
            consumer.subscribe(Pattern.compile("^" + Pattern.quote(prefix) + ".*"));
            for (int found = 0; found < count; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    say("{\"found\": [\"" + record.topic() + "\", " + record.offset() + "]}");
                    found++;
                }
            }
        }
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).collect(Collectors.toCollection(TreeSet::new)).toString();
    }

    static Properties reader(String bootstrap) {
        Properties options = Security.to(bootstrap);
        options.put("auto.offset.reset", "earliest");
        options.put("key.deserializer", ByteArrayDeserializer.class.getName());
        options.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return options;
    }

    // Records

    private static void produce(String bootstrap, String topic, String codec) throws Exception {
        Properties options = Security.to(bootstrap);
        options.put("acks", "all");
        options.put("enable.idempotence", "true");
        options.put("linger.ms", "50");
        options.put("compression.type", codec);
        options.put("key.serializer", ByteArraySerializer.class.getName());
        options.put("value.serializer", ByteArraySerializer.class.getName());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(options);
                BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] fields = line.split("\t", -1);
                ProducerRecord<byte[], byte[]> record =
                        new ProducerRecord<>(topic, Integer.valueOf(fields[0]), bytes(fields[1]), bytes(fields[2]));
                for (String header : Arrays.asList(fields).subList(3, fields.length)) {
                    int at = header.indexOf('=');
                    record.headers().add(header.substring(0, at), bytes(header.substring(at + 1)));
                }
                sent.add(producer.send(record));
            }
        }
        for (Future<RecordMetadata> one : sent) {
            RecordMetadata at = one.get();
            say("{\"sent\": [" + at.partition() + ", " + at.offset() + "]}");
        }
    }

    private static void read(String bootstrap, String topic, int partition, int count) {
        TopicPartition from = new TopicPartition(topic, partition);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reader(bootstrap))) {
            consumer.assign(Collections.singleton(from));
            consumer.seekToBeginning(Collections.singleton(from));
            int found = 0;
            while (found < count) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    List<String> headers = new ArrayList<>();
                    for (Header h : r.headers()) {
                        headers.add("[\"" + h.key() + "\", " + text(h.value()) + "]");
                    }
                    say("{\"record\": [" + r.offset() + ", " + r.timestamp() + ", " + text(r.key()) + ", "
                            + text(r.value()) + ", " + headers + "]}");
                    found++;
                }
            }
        }
    }

    private static byte[] bytes(String field) {
        return field.equals("~") ? null : Base64.getDecoder().decode(field);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "null" : "\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
