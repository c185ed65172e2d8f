// A member that plays a role in a campaign: what it is told on its standard input it does.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class Play {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "RangeAssignor",
            "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");
    private static final ConcurrentLinkedQueue<String[]> ORDERS = new ConcurrentLinkedQueue<>();
    private static volatile boolean stopping = false;

    public static void main(String[] words) throws Exception {
        Map<String, String> role = new HashMap<>();
        for (String word : words) {
            int at = word.indexOf('=');
            if (at > 0) {
                role.put(word.substring(0, at), word.substring(at + 1));
            }
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options(role));
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            consumer.wakeup();
            try {
                polling.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        Thread reader = new Thread(Play::hear);
        reader.setDaemon(true);
        reader.start();
        subscribe(consumer, role);
        try {
            while (!stopping) {
                obey(consumer, ORDERS.poll());
                consumer.poll(Duration.ofMillis(200));
            }
        } catch (WakeupException stop) {
            // it was told to end
        } catch (RuntimeException fenced) {
            fenced.printStackTrace();
            Runtime.getRuntime().halt(2);
        }
        consumer.close();
        System.out.println("{\"left\": true}");
        System.out.flush();
    }

    private static Properties options(Map<String, String> role) {
        Properties options = new Properties();
        options.put("bootstrap.servers", role.get("bootstrap"));
        options.put("group.id", role.get("group"));
        options.put("client.id", role.get("client"));
        options.put("auto.offset.reset", "earliest");
        options.put("auto.commit.interval.ms", "200");
        options.put("metadata.max.age.ms", "1000");
        options.put("max.poll.interval.ms", role.get("poll"));
        options.put("key.deserializer", ByteArrayDeserializer.class.getName());
        options.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (role.get("strategy").equals("consumer")) {
            options.put("group.protocol", "consumer");
        } else {
            options.put("session.timeout.ms", role.get("session"));
            options.put("heartbeat.interval.ms", role.get("heartbeat"));
            options.put("partition.assignment.strategy", Arrays.stream(role.get("strategy").split(","))
                    .map(name -> "org.apache.kafka.clients.consumer." + ASSIGNORS.get(name))
                    .collect(Collectors.joining(",")));
        }
        if (!role.get("instance").equals("-")) {
            options.put("group.instance.id", role.get("instance"));
        }
        return options;
    }

    private static void subscribe(KafkaConsumer<byte[], byte[]> consumer, Map<String, String> role) {
        String pattern = role.get("pattern");
        if (pattern == null) {
            consumer.subscribe(List.of(role.get("topics").split(",")));
        } else if (role.get("strategy").equals("consumer")) {
            consumer.subscribe(new SubscriptionPattern(pattern + ".*"));
        } else {
            consumer.subscribe(Pattern.compile("^" + Pattern.quote(pattern) + ".*"));
        }
    }

    private static void obey(KafkaConsumer<byte[], byte[]> consumer, String[] order) throws InterruptedException {
        if (order == null) {
            return;
        }
        switch (order[0]) {
            case "stall": Thread.sleep(Long.parseLong(order[1])); break;
            case "enforce": consumer.enforceRebalance(String.join(" ", Arrays.asList(order).subList(1, order.length))); break;
            case "subscribe": consumer.subscribe(List.of(order[1].split(","))); break;
            default: throw new IllegalArgumentException(order[0]);
        }
    }

    /** Takes orders; whoever gave them has ended where the input ends: then this program ends, too. */
    private static void hear() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                ORDERS.add(line.trim().split(" "));
            }
        } catch (java.io.IOException e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(3);
    }
}
