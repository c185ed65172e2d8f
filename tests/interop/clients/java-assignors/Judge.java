// Apache Kafka's own assignors as judges: a JSON case per line in, the assignment per line out.
//
// {"assignor": "range", "topics": {"a": 3}, "racks": [["a", 0, ["r1", "r2"]]], "members": [{"id": "m0",
//  "instance": null, "topics": ["a"], "owned": [["a", 0]], "generation": 3, "rack": "r1", "user_data": null}]}
// answers {"m0": [["a", 0], ["a", 1], ["a", 2]]}; the generation is -1 where a member tells none.
// The answer is null where the Java assignor gives up: some contradictory claims are too much for it.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public final class Judge {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, List<Object[]>> found;
            try {
                found = judge(json.readTree(line));
            } catch (IllegalStateException contradiction) {
                found = null;
            }
            System.out.println(json.writeValueAsString(found));
        }
        System.out.flush();
    }

    private static Map<String, List<Object[]>> judge(JsonNode given) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : given.get("members")) {
            members.put(member.get("id").asText(), subscription(member));
        }
        Map<String, List<Object[]>> found = new LinkedHashMap<>();
        assignor(given.get("assignor").asText()).assign(cluster(given), new GroupSubscription(members)).groupAssignment()
                .forEach((member, assignment) -> {
                    List<Object[]> partitions = new ArrayList<>();
                    assignment.partitions().forEach(p -> partitions.add(new Object[] {p.topic(), p.partition()}));
                    found.put(member, partitions);
                });
        return found;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(t -> topics.add(t.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(p -> owned.add(new TopicPartition(p.get(0).asText(), p.get(1).asInt())));
        JsonNode data = member.get("user_data");
        String rack = member.get("rack").asText();
        Subscription made = new Subscription(
                topics,
                data.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(data.asText())),
                owned,
                member.get("generation").asInt(),
                rack.isEmpty() ? Optional.empty() : Optional.of(rack));
        JsonNode instance = member.get("instance");
        made.setGroupInstanceId(instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
        return made;
    }

    private static Cluster cluster(JsonNode given) {
        Map<String, Node> nodes = new HashMap<>();
        Map<TopicPartition, Node[]> replicas = new HashMap<>();
        for (JsonNode entry : given.get("racks")) {
            List<Node> of = new ArrayList<>();
            entry.get(2).forEach(rack -> of.add(nodes.computeIfAbsent(
                    rack.asText(), name -> new Node(nodes.size(), "host", 1, name))));
            replicas.put(new TopicPartition(entry.get(0).asText(), entry.get(1).asInt()), of.toArray(new Node[0]));
        }
        List<PartitionInfo> partitions = new ArrayList<>();
        given.get("topics").properties().forEach(topic -> {
            for (int p = 0; p < topic.getValue().asInt(); p++) {
                Node[] of = replicas.getOrDefault(new TopicPartition(topic.getKey(), p), new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), p, of.length == 0 ? null : of[0], of, of));
            }
        });
        return new Cluster("judge", nodes.values(), partitions, Set.of(), Set.of());
    }
}
