// IBM's sarama behind the command line of ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

func main() {
	args := arguments()
	switch args[0] {
	case "consume":
		consume(args[1], args[2], args[3], args[4], args[5])
	case "play":
		play(args[1:])
	case "produce":
		produce(args[1], args[2], args[3])
	case "read":
		read(args[1], args[2], number(args[3]), number(args[4]))
	case "admin":
		admin(args[1], args[2], args[3], args[4], number(args[5]))
	default:
		log.Fatalf("unknown verb %s", args[0])
	}
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	secure(c)
	return c
}

// Consuming in a group

type handler struct{}

func (handler) Setup(s sarama.ConsumerGroupSession) error {
	say(map[string]any{"gained": numbers(s.Claims()), "at": time.Now().UnixMilli()})
	return nil
}

func (handler) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	say(map[string]any{"gave_up": numbers(s.Claims()), "at": time.Now().UnixMilli()})
	return nil
}

func (handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			say(map[string]any{"read": []int64{int64(message.Partition), message.Offset}})
			s.MarkMessage(message, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func numbers(claims map[string][]int32) []int32 {
	found := []int32{}
	for _, partitions := range claims {
		found = append(found, partitions...)
	}
	return found
}

func consume(bootstrap, group, topic, strategy, instance string) {
	c := config()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	c.Consumer.Group.Session.Timeout = 6 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	c.Consumer.Group.Rebalance.Retry.Max = 40
	c.Metadata.RefreshFrequency = time.Second
	c.Metadata.Retry.Max = 40
	if strategy != "-" {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[strategy]()}
	}
	if instance != "-" {
		c.Consumer.Group.InstanceId = instance
		c.Consumer.Group.Session.Timeout = 30 * time.Second // it outlives a restart
	}
	consumer, err := sarama.NewConsumerGroup([]string{bootstrap}, group, c)
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{topic}, handler{}); err != nil && ctx.Err() == nil {
			log.Printf("consume: %v", err) // the broker may be away; it comes back
			time.Sleep(200 * time.Millisecond)
		}
	}
	check(consumer.Close())
	say(map[string]any{"left": true})
}

// Records

func produce(bootstrap, topic, codec string) {
	c := config()
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Compression = codecs[codec]
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, c)
	check(err)
	messages := []*sarama.ProducerMessage{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		message := &sarama.ProducerMessage{Topic: topic, Partition: int32(number(fields[0]))}
		if key := bytesOf(fields[1]); key != nil {
			message.Key = sarama.ByteEncoder(key)
		}
		if value := bytesOf(fields[2]); value != nil {
			message.Value = sarama.ByteEncoder(value)
		}
		for _, header := range fields[3:] {
			name, value, _ := strings.Cut(header, "=")
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(name), Value: bytesOf(value)})
		}
		messages = append(messages, message)
	}
	check(producer.SendMessages(messages))
	for _, m := range messages {
		say(map[string]any{"sent": []int64{int64(m.Partition), m.Offset}})
	}
	check(producer.Close())
}

func read(bootstrap, topic string, partition, count int) {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config())
	check(err)
	from, err := consumer.ConsumePartition(topic, int32(partition), sarama.OffsetOldest)
	check(err)
	for i := 0; i < count; i++ {
		m := <-from.Messages()
		headers := [][]any{}
		for _, h := range m.Headers {
			headers = append(headers, []any{string(h.Key), h.Value})
		}
		say(map[string]any{"record": []any{m.Offset, m.Timestamp.UnixMilli(), m.Key, m.Value, headers}})
	}
	check(from.Close())
	check(consumer.Close())
}

// Lines

var printing sync.Mutex

func say(what map[string]any) {
	line, err := json.Marshal(what)
	check(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func bytesOf(field string) []byte {
	if field == "~" {
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(field)
	check(err)
	if decoded == nil {
		return []byte{}
	}
	return decoded
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
