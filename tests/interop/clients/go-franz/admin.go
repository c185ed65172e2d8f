package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

var ctx = context.Background()

func admin(bootstrap, topic, group, there string, timeMs int) {
	client := kadm.NewClient(connect(bootstrap))
	topics(client, topic)
	configs(client, topic)
	nodes(client, there)
	offsets(client, there, int64(timeMs))
	groups(client, group, there)
	_, err := client.DeleteTopic(ctx, topic)
	check(err)
	client.Close()
	for tries := 0; isThere(bootstrap, topic) && tries < 100; tries++ { // a broker may learn of that later, too
		time.Sleep(100 * time.Millisecond)
	}
	say(map[string]any{"deleted": !isThere(bootstrap, topic)})
}

// isThere asks with a client of its own: one remembers for a while what topics there were.
func isThere(bootstrap, topic string) bool {
	client := kadm.NewClient(connect(bootstrap))
	defer client.Close()
	listed, err := client.ListTopics(ctx)
	check(err)
	return listed.Has(topic)
}

func topics(client *kadm.Client, topic string) {
	retention := "1234567"
	wanted := map[string]*string{"retention.ms": &retention}
	_, err := client.CreateTopic(ctx, 2, 1, wanted, topic)
	check(err)
	say(map[string]any{"created": len(partitions(client, topic))})
	_, err = client.CreateTopic(ctx, 2, 1, wanted, topic)
	say(map[string]any{"refused": errors.Is(err, kerr.TopicAlreadyExists)})
	grown, err := client.UpdatePartitions(ctx, 3, topic)
	check(err)
	check(grown.Error())
	// A broker of Apache Kafka may learn of it a little later than the controller has answered.
	for tries := 0; len(partitions(client, topic)) == 2 && tries < 100; tries++ {
		time.Sleep(100 * time.Millisecond)
	}
	say(map[string]any{"grown": len(partitions(client, topic))})
	listed, err := client.ListTopics(ctx)
	check(err)
	say(map[string]any{"listed": len(listed[topic].Partitions)})
	rows := [][]any{}
	for _, p := range partitions(client, topic) {
		rows = append(rows, []any{p.Partition, p.Leader, p.Replicas, p.ISR})
	}
	say(map[string]any{"described": rows})
}

func partitions(client *kadm.Client, topic string) []kadm.PartitionDetail {
	topics, err := client.ListTopics(ctx, topic)
	check(err)
	return topics[topic].Partitions.Sorted()
}

func configs(client *kadm.Client, topic string) {
	retention := func() string {
		described, err := client.DescribeTopicConfigs(ctx, topic)
		check(err)
		return option(described, "retention.ms")
	}
	say(map[string]any{"retention": retention()})
	wanted := "7654321"
	altered, err := client.AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &wanted}}, topic)
	check(err)
	check(altered[0].Err)
	say(map[string]any{"altered": retention()})
}

func option(described kadm.ResourceConfigs, option string) string {
	for _, entry := range described[0].Configs {
		if entry.Key == option {
			return entry.MaybeValue()
		}
	}
	return ""
}

func nodes(client *kadm.Client, there string) {
	cluster, err := client.BrokerMetadata(ctx)
	check(err)
	say(map[string]any{"cluster": []any{cluster.Brokers.NodeIDs(), cluster.Controller}})
	described, err := client.DescribeBrokerConfigs(ctx, cluster.Controller)
	check(err)
	say(map[string]any{"broker": option(described, "log.cleanup.policy")})
	folders, err := client.DescribeAllLogDirs(ctx, nil)
	check(err)
	_, found := folders[cluster.Controller].LookupPartition(there, 0)
	say(map[string]any{"on_disk": found})
}

func offsets(client *kadm.Client, there string, timeMs int64) {
	at := func(listed kadm.ListedOffsets, err error) int64 {
		check(err)
		found, _ := listed.Lookup(there, 0)
		check(found.Err)
		return found.Offset
	}
	first := at(client.ListStartOffsets(ctx, there))
	say(map[string]any{"offsets": []int64{first, at(client.ListEndOffsets(ctx, there))}})
	say(map[string]any{"at_time": at(client.ListOffsetsAfterMilli(ctx, timeMs, there))})
	var before kadm.Offsets
	before.AddOffset(there, 0, 1, -1)
	cut, err := client.DeleteRecords(ctx, before)
	check(err)
	found, _ := cut.Lookup(there, 0)
	check(found.Err)
	say(map[string]any{"cut": found.LowWatermark})
}

func groups(client *kadm.Client, group, there string) {
	listed := func() bool {
		groups, err := client.ListGroups(ctx)
		check(err)
		_, found := groups[group]
		return found
	}
	committed := func() map[string]int64 {
		offsets, err := client.FetchOffsets(ctx, group)
		check(err)
		found := map[string]int64{}
		offsets.Each(func(o kadm.OffsetResponse) { found[strconv.Itoa(int(o.Partition))] = o.At })
		return found
	}
	say(map[string]any{"groups": listed()})
	described, err := client.DescribeGroups(ctx, group)
	check(err)
	say(map[string]any{"group": []any{described[group].State, len(described[group].Members)}})
	say(map[string]any{"committed": committed()})
	var moved kadm.Offsets
	moved.AddOffset(there, 0, 2, -1)
	check(client.CommitAllOffsets(ctx, group, moved))
	say(map[string]any{"moved": committed()})
	_, err = client.DeleteGroup(ctx, group)
	check(err)
	say(map[string]any{"group_deleted": !listed()})
}
