import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The calls of the first versions: some are gone since, for others the consumer was asked. */
final class Calls {
    private final AdminClient client;
    private final String bootstrap;

    Calls(AdminClient client, String bootstrap) {
        this.client = client;
        this.bootstrap = bootstrap;
    }

    TopicDescription describe(String topic) throws Exception {
        return client.describeTopics(Collections.singleton(topic)).all().get().get(topic);
    }

    void alter(ConfigResource resource, String option, String value) throws Exception {
        Config wanted = new Config(Collections.singleton(new ConfigEntry(option, value)));
        client.alterConfigs(Collections.singletonMap(resource, wanted)).all().get();
    }

    long earliest(TopicPartition partition) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Client.reader(bootstrap))) {
            return consumer.beginningOffsets(Collections.singleton(partition)).get(partition);
        }
    }

    long latest(TopicPartition partition) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Client.reader(bootstrap))) {
            return consumer.endOffsets(Collections.singleton(partition)).get(partition);
        }
    }

    long atTime(TopicPartition partition, long timeMs) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Client.reader(bootstrap))) {
            return consumer.offsetsForTimes(Collections.singletonMap(partition, timeMs)).get(partition).offset();
        }
    }

    Set<TopicPartition> onDisk(int node) throws Exception {
        Set<TopicPartition> found = new HashSet<>();
        client.describeLogDirs(Collections.singleton(node)).all().get().get(node).values()
                .forEach(folder -> found.addAll(folder.replicaInfos.keySet()));
        return found;
    }

    Set<String> groups() throws Exception {
        return client.listConsumerGroups().all().get().stream().map(g -> g.groupId()).collect(Collectors.toSet());
    }

    boolean move(String group, TopicPartition partition, long offset) {
        return false;
    }
}
