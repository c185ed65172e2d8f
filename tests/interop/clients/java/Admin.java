import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;

/** A round through the admin calls; those that are not the same in every version are in {@code Calls}. */
final class Admin {
    private final String topic;
    private final String group;
    private final TopicPartition there;
    private final long timeMs;
    private final AdminClient client;
    private final Calls calls;

    Admin(String bootstrap, String topic, String group, String there, long timeMs) {
        this.topic = topic;
        this.group = group;
        this.there = new TopicPartition(there, 0);
        this.timeMs = timeMs;
        client = AdminClient.create(Security.to(bootstrap));
        calls = new Calls(client, bootstrap);
    }

    void round() throws Exception {
        topics();
        configs();
        nodes();
        say("offsets", List.of(calls.earliest(there), calls.latest(there)));
        say("at_time", calls.atTime(there, timeMs));
        say("cut", client.deleteRecords(Map.of(there, RecordsToDelete.beforeOffset(1))).lowWatermarks().get(there).get()
                .lowWatermark());
        groups();
        client.deleteTopics(Collections.singleton(topic)).all().get();
        for (int tries = 0; isThere() && tries < 100; tries++) { // a broker may learn of that later, too
            Thread.sleep(100);
        }
        say("deleted", !isThere());
        client.close();
    }

    private boolean isThere() throws Exception {
        return client.listTopics().names().get().contains(topic);
    }

    private void topics() throws Exception {
        NewTopic wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "1234567"));
        client.createTopics(Collections.singleton(wanted)).all().get();
        say("created", calls.describe(topic).partitions().size());
        try {
            client.createTopics(Collections.singleton(wanted)).all().get();
            say("refused", false);
        } catch (ExecutionException e) {
            say("refused", e.getCause() instanceof TopicExistsException);
        }
        client.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        // A broker of Apache Kafka may learn of it a little later than the controller has answered.
        for (int tries = 0; calls.describe(topic).partitions().size() == 2 && tries < 100; tries++) {
            Thread.sleep(100);
        }
        say("grown", calls.describe(topic).partitions().size());
        say("listed", client.listTopics().names().get().contains(topic) ? calls.describe(topic).partitions().size() : 0);
        List<Object> rows = new ArrayList<>();
        for (TopicPartitionInfo p : calls.describe(topic).partitions()) {
            rows.add(List.of(p.partition(), p.leader().id(), ids(p.replicas()), ids(p.isr())));
        }
        say("described", rows);
    }

    private static List<Integer> ids(Iterable<Node> nodes) {
        List<Integer> ids = new ArrayList<>();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }

    private void configs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        say("retention", quoted(option(resource, "retention.ms")));
        calls.alter(resource, "retention.ms", "7654321");
        say("altered", quoted(option(resource, "retention.ms")));
    }

    private String option(ConfigResource resource, String name) throws Exception {
        return client.describeConfigs(Collections.singleton(resource)).all().get().get(resource).get(name).value();
    }

    private void nodes() throws Exception {
        DescribeClusterResult cluster = client.describeCluster();
        int controller = cluster.controller().get().id();
        say("cluster", List.of(ids(cluster.nodes().get()), controller));
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(controller));
        say("broker", quoted(option(broker, "log.cleanup.policy")));
        say("on_disk", calls.onDisk(controller).contains(there));
    }

    private void groups() throws Exception {
        say("groups", calls.groups().contains(group));
        ConsumerGroupDescription described =
                client.describeConsumerGroups(Collections.singleton(group)).all().get().get(group);
        say("group", List.of(quoted(capital(described.state().toString())), described.members().size()));
        say("committed", committed());
        if (calls.move(group, there, 2)) {
            say("moved", committed());
        }
        client.deleteConsumerGroups(Collections.singleton(group)).all().get();
        say("group_deleted", !calls.groups().contains(group));
    }

    private String committed() throws Exception {
        return client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet().stream()
                .map(e -> quoted(String.valueOf(e.getKey().partition())) + ": " + e.getValue().offset())
                .sorted().collect(Collectors.joining(", ", "{", "}"));
    }

    private static String capital(String word) {
        return word.substring(0, 1).toUpperCase(Locale.ROOT) + word.substring(1).toLowerCase(Locale.ROOT);
    }

    private static String quoted(String text) {
        return "\"" + text + "\"";
    }

    /** Lists of numbers print as JSON does. */
    private static void say(String line, Object what) {
        Client.say("{" + quoted(line) + ": " + what + "}");
    }
}
