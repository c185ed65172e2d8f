// A member that plays a role in a campaign: what it is told on its standard input it does.
package main

import (
	"bufio"
	"context"
	"log"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func play(words []string) {
	role := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		role[name] = value
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	options := []kgo.Opt{
		kgo.ClientID(role["client"]),
		kgo.ConsumerGroup(role["group"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(200 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
	}
	if role["strategy"] == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		chosen := []kgo.GroupBalancer{}
		for _, name := range strings.Split(role["strategy"], ",") {
			chosen = append(chosen, balancers[name])
		}
		options = append(options, kgo.Balancers(chosen...), kgo.SessionTimeout(millis(role["session"])),
			kgo.HeartbeatInterval(millis(role["heartbeat"])), kgo.RebalanceTimeout(millis(role["poll"])))
	}
	if pattern, is := role["pattern"]; is {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+regexp.QuoteMeta(pattern)+".*"))
	} else {
		options = append(options, kgo.ConsumeTopics(strings.Split(role["topics"], ",")...))
	}
	if role["instance"] != "-" {
		options = append(options, kgo.InstanceID(role["instance"]))
	}
	client := connect(role["bootstrap"], options...)
	go obey(client)
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachError(func(topic string, _ int32, err error) {
			if strings.Contains(err.Error(), "FENCED_INSTANCE_ID") {
				log.Fatal(err)
			}
		})
	}
	client.Close()
	say(map[string]any{"left": true})
}

// obey does what is ordered, and ends the program where whoever gave orders has ended.
func obey(client *kgo.Client) {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		order := strings.Fields(orders.Text())
		switch order[0] {
		case "enforce":
			client.ForceRebalance()
		case "subscribe":
			client.AddConsumeTopics(strings.Split(order[1], ",")...)
		}
	}
	os.Exit(3)
}

func millis(text string) time.Duration {
	return time.Duration(number(text)) * time.Millisecond
}
