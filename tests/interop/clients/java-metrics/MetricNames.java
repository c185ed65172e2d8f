// The metrics of Apache Kafka's own clients after they were used: a line "KIND group name tag,tag" for each.
//
// java -cp 'jars/*' MetricNames.java BOOTSTRAP TOPIC

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MetricNames {
    static void print(String kind, Map<MetricName, ? extends Metric> metrics) {
        for (MetricName name : metrics.keySet()) {
            TreeSet<String> tags = new TreeSet<>(name.tags().keySet());
            tags.remove("client-id");
            System.out.println(kind + " " + name.group() + " " + name.name() + " " + String.join(",", tags));
        }
    }

    public static void main(String[] given) throws Exception {
        Properties options = new Properties();
        options.put("bootstrap.servers", given[0]);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(given[1], new byte[10])).get();
            print("producer", producer.metrics());
        }
        for (String protocol : List.of("classic", "consumer")) {
            Properties reading = new Properties();
            reading.putAll(options);
            reading.put("group.id", given[1] + "-" + protocol);
            reading.put("group.protocol", protocol);
            reading.put("auto.offset.reset", "earliest");
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(given[1]));
                while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
                }
                consumer.commitSync();
                print("consumer", consumer.metrics());
            }
        }
        try (Admin admin = Admin.create(options)) {
            admin.listTopics().names().get();
            print("admin", admin.metrics());
        }
    }
}
