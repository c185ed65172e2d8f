// The assignors of Apache Kafka's coordinator as judges: a JSON case per line in, the targets per line out.
//
// {"assignor": "uniform", "topics": {"AAAA...": 3}, "equal": true, "members": [{"id": "m0", "instance": null,
//  "topics": ["AAAA..."], "owned": [["AAAA...", [0, 1]]]}], "newcomer": {...} or null}
// answers {"m0": {"AAAA...": [0, 1, 2]}}; topics go by their ids, in Kafka's base64. The members are those of a group
// in the order in which they joined; the newcomer joins at this moment.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

public final class Judge {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(json.writeValueAsString(judge(json.readTree(line))));
        }
        System.out.flush();
    }

    private static Map<String, Map<String, Set<Integer>>> judge(JsonNode given) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = members(given);
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        members.forEach((id, member) -> member.partitions().forEach((topic, partitions) -> partitions.forEach(
                p -> owners.computeIfAbsent(topic, t -> new HashMap<>()).put(p, id))));
        PartitionAssignor assignor =
                given.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type =
                given.get("equal").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, Map<String, Set<Integer>>> found = new HashMap<>();
        members.keySet().forEach(id -> found.put(id, new HashMap<>()));
        assignor.assign(new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners), counts(given))
                .members()
                .forEach((id, target) -> target.partitions().forEach(
                        (topic, partitions) -> found.get(id).put(topic.toString(), partitions)));
        return found;
    }

    /** The members in the table that the coordinator makes for an assignor, out of the one that a group has. */
    private static Map<String, MemberSubscriptionAndAssignmentImpl> members(JsonNode given) {
        TimelineHashMap<String, MemberSubscriptionAndAssignmentImpl> kept =
                new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        given.get("members").forEach(member -> kept.put(member.get("id").asText(), spec(member)));
        // Members are replaced by newer versions of themselves all the time, which lets the table grow a little earlier.
        given.get("members").forEach(member -> kept.put(member.get("id").asText(), spec(member)));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        kept.forEach(members::put);
        JsonNode newcomer = given.get("newcomer");
        if (!newcomer.isNull()) {
            members.put(newcomer.get("id").asText(), spec(newcomer));
        }
        return members;
    }

    private static MemberSubscriptionAndAssignmentImpl spec(JsonNode member) {
        Set<Uuid> topics = new LinkedHashSet<>();
        member.get("topics").forEach(t -> topics.add(Uuid.fromString(t.asText())));
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(entry -> {
            List<Integer> partitions = new ArrayList<>();
            entry.get(1).forEach(p -> partitions.add(p.asInt()));
            owned.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(Uuid.fromString(entry.get(0).asText()))
                    .setPartitions(partitions));
        });
        JsonNode instance = member.get("instance");
        return new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                instance.isNull() ? Optional.empty() : Optional.of(instance.asText()),
                topics,
                Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(owned)));
    }

    private static SubscribedTopicDescriber counts(JsonNode given) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return given.get("topics").path(topic.toString()).asInt(-1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }
}
