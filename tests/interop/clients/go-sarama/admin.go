package main

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func admin(bootstrap, topic, group, there string, timeMs int) {
	client, err := sarama.NewClusterAdmin([]string{bootstrap}, config())
	check(err)
	topics(client, topic)
	configs(client, topic)
	nodes(client, there)
	offsets(client, there, int64(timeMs))
	groups(client, group, there)
	check(client.DeleteTopic(topic))
	for tries := 0; isThere(client, topic) && tries < 100; tries++ { // a broker may learn of that later, too
		time.Sleep(100 * time.Millisecond)
	}
	say(map[string]any{"deleted": !isThere(client, topic)})
	check(client.Close())
}

func isThere(client sarama.ClusterAdmin, topic string) bool {
	listed, err := client.ListTopics()
	check(err)
	_, found := listed[topic]
	return found
}

func topics(client sarama.ClusterAdmin, topic string) {
	retention := "1234567"
	wanted := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": &retention}}
	check(client.CreateTopic(topic, wanted, false))
	say(map[string]any{"created": len(partitions(client, topic))})
	say(map[string]any{"refused": errors.Is(client.CreateTopic(topic, wanted, false), sarama.ErrTopicAlreadyExists)})
	check(client.CreatePartitions(topic, 3, nil, false))
	// A broker of Apache Kafka may learn of it a little later than the controller has answered.
	for tries := 0; len(partitions(client, topic)) == 2 && tries < 100; tries++ {
		time.Sleep(100 * time.Millisecond)
	}
	say(map[string]any{"grown": len(partitions(client, topic))})
	listed, err := client.ListTopics()
	check(err)
	say(map[string]any{"listed": listed[topic].NumPartitions})
	rows := [][]any{}
	for _, p := range partitions(client, topic) {
		rows = append(rows, []any{p.ID, p.Leader, p.Replicas, p.Isr})
	}
	slices.SortFunc(rows, func(one, other []any) int { return int(one[0].(int32) - other[0].(int32)) })
	say(map[string]any{"described": rows})
}

func partitions(client sarama.ClusterAdmin, topic string) []*sarama.PartitionMetadata {
	described, err := client.DescribeTopics([]string{topic})
	check(err)
	return described[0].Partitions
}

func configs(client sarama.ClusterAdmin, topic string) {
	say(map[string]any{"retention": option(client, sarama.TopicResource, topic, "retention.ms")})
	retention := "7654321"
	change := sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention}
	check(client.IncrementalAlterConfig(sarama.TopicResource, topic,
		map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": change}, false))
	say(map[string]any{"altered": option(client, sarama.TopicResource, topic, "retention.ms")})
}

func option(client sarama.ClusterAdmin, kind sarama.ConfigResourceType, name, option string) string {
	entries, err := client.DescribeConfig(sarama.ConfigResource{Type: kind, Name: name, ConfigNames: []string{option}})
	check(err)
	return entries[0].Value
}

func nodes(client sarama.ClusterAdmin, there string) {
	brokers, controller, err := client.DescribeCluster()
	check(err)
	ids := []int32{}
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	say(map[string]any{"cluster": []any{ids, controller}})
	broker := strconv.Itoa(int(controller))
	say(map[string]any{"broker": option(client, sarama.BrokerResource, broker, "log.cleanup.policy")})
	folders, err := client.DescribeLogDirs(ids)
	check(err)
	found := false
	for _, folder := range folders[controller] {
		for _, one := range folder.Topics {
			found = found || one.Topic == there
		}
	}
	say(map[string]any{"on_disk": found})
}

func offsets(client sarama.ClusterAdmin, there string, timeMs int64) {
	at := func(query int64) int64 {
		found, err := client.ListOffsets(map[string]map[int32]int64{there: {0: query}}, nil)
		check(err)
		if err := found[there][0].Err; !errors.Is(err, sarama.ErrNoError) {
			check(err)
		}
		return found[there][0].Offset
	}
	say(map[string]any{"offsets": []int64{at(sarama.OffsetOldest), at(sarama.OffsetNewest)}, "at_time": at(timeMs)})
	check(client.DeleteRecords(there, map[int32]int64{0: 1}))
	say(map[string]any{"cut": at(sarama.OffsetOldest)})
}

func groups(client sarama.ClusterAdmin, group, there string) {
	listed := func() bool {
		groups, err := client.ListConsumerGroups()
		check(err)
		_, found := groups[group]
		return found
	}
	committed := func() map[string]int64 {
		offsets, err := client.ListConsumerGroupOffsets(group, nil)
		check(err)
		found := map[string]int64{}
		for _, blocks := range offsets.Blocks {
			for partition, block := range blocks {
				found[strconv.Itoa(int(partition))] = block.Offset
			}
		}
		return found
	}
	say(map[string]any{"groups": listed()})
	described, err := client.DescribeConsumerGroups([]string{group})
	check(err)
	say(map[string]any{"group": []any{described[0].State, len(described[0].Members)}})
	say(map[string]any{"committed": committed()})
	_, err = client.AlterConsumerGroupOffsets(group,
		map[string]map[int32]sarama.OffsetAndMetadata{there: {0: {Offset: 2, LeaderEpoch: -1}}}, nil)
	check(err)
	say(map[string]any{"moved": committed()})
	check(client.DeleteConsumerGroup(group))
	say(map[string]any{"group_deleted": !listed()})
}
