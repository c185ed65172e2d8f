import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The calls as they are now. */
final class Calls {
    private final AdminClient client;

    Calls(AdminClient client, String bootstrap) {
        this.client = client;
    }

    TopicDescription describe(String topic) throws Exception {
        return client.describeTopics(Collections.singleton(topic)).allTopicNames().get().get(topic);
    }

    void alter(ConfigResource resource, String option, String value) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(option, value), AlterConfigOp.OpType.SET);
        client.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    long earliest(TopicPartition partition) throws Exception {
        return offset(partition, OffsetSpec.earliest());
    }

    long latest(TopicPartition partition) throws Exception {
        return offset(partition, OffsetSpec.latest());
    }

    long atTime(TopicPartition partition, long timeMs) throws Exception {
        return offset(partition, OffsetSpec.forTimestamp(timeMs));
    }

    private long offset(TopicPartition partition, OffsetSpec at) throws Exception {
        return client.listOffsets(Map.of(partition, at)).all().get().get(partition).offset();
    }

    Set<TopicPartition> onDisk(int node) throws Exception {
        Set<TopicPartition> found = new HashSet<>();
        client.describeLogDirs(Collections.singleton(node)).allDescriptions().get().get(node).values()
                .forEach(folder -> found.addAll(folder.replicaInfos().keySet()));
        return found;
    }

    Set<String> groups() throws Exception {
        return client.listGroups().all().get().stream().map(g -> g.groupId()).collect(Collectors.toSet());
    }

    boolean move(String group, TopicPartition partition, long offset) throws Exception {
        client.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(offset))).all().get();
        return true;
    }
}
