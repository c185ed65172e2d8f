// A member that plays a role in a campaign: what it is told on its standard input it does.
package main

import (
	"bufio"
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

func play(words []string) {
	role := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		role[name] = value
	}
	c := config()
	c.Version = sarama.V3_6_0_0
	c.ClientID = role["client"]
	c.Consumer.Return.Errors = false
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	c.Consumer.Group.Session.Timeout = millis(role["session"])
	c.Consumer.Group.Heartbeat.Interval = millis(role["heartbeat"])
	c.Consumer.Group.Rebalance.Timeout = millis(role["poll"])
	c.Consumer.Group.Rebalance.Retry.Max = 40
	c.Metadata.RefreshFrequency = time.Second
	c.Metadata.Retry.Max = 40
	chosen := []sarama.BalanceStrategy{}
	for _, name := range strings.Split(role["strategy"], ",") {
		chosen = append(chosen, strategies[name]())
	}
	c.Consumer.Group.Rebalance.GroupStrategies = chosen
	if role["instance"] != "-" {
		c.Consumer.Group.InstanceId = role["instance"]
	}
	consumer, err := sarama.NewConsumerGroup([]string{role["bootstrap"]}, role["group"], c)
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	session := &subscribed{topics: strings.Split(role["topics"], ",")}
	go session.obey()
	for ctx.Err() == nil {
		topics, within := session.begin(ctx)
		err := consumer.Consume(within, topics, quiet{})
		if errors.Is(err, sarama.ErrFencedInstancedId) {
			log.Fatal(err)
		}
		if err != nil && within.Err() == nil {
			log.Printf("consume: %v", err) // the broker may be away; it comes back
			time.Sleep(200 * time.Millisecond)
		}
	}
	check(consumer.Close())
	say(map[string]any{"left": true})
}

// What is subscribed to, and how to end the session that reads it.
type subscribed struct {
	lock   sync.Mutex
	topics []string
	end    context.CancelFunc
}

func (s *subscribed) begin(ctx context.Context) ([]string, context.Context) {
	s.lock.Lock()
	defer s.lock.Unlock()
	within, end := context.WithCancel(ctx)
	s.end = end
	return s.topics, within
}

// obey does what is ordered, and ends the program where whoever gave orders has ended.
func (s *subscribed) obey() {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		order := strings.Fields(orders.Text())
		if order[0] == "subscribe" {
			s.lock.Lock()
			s.topics = strings.Split(order[1], ",")
			s.end()
			s.lock.Unlock()
		}
	}
	os.Exit(3)
}

// quiet reads and says nothing of it.
type quiet struct{}

func (quiet) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (quiet) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (quiet) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			s.MarkMessage(message, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func millis(text string) time.Duration {
	return time.Duration(number(text)) * time.Millisecond
}
