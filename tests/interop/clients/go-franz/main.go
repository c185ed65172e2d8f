// franz-go behind the command line of ../README.md.
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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var balancers = map[string]kgo.GroupBalancer{
	"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
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
	case "discover":
		discover(args[1], args[2], args[3], number(args[4]))
	case "admin":
		admin(args[1], args[2], args[3], args[4], number(args[5]))
	default:
		log.Fatalf("unknown verb %s", args[0])
	}
}

func connect(bootstrap string, options ...kgo.Opt) *kgo.Client {
	options = append(append([]kgo.Opt{kgo.SeedBrokers(bootstrap)}, security()...), options...)
	client, err := kgo.NewClient(options...)
	check(err)
	return client
}

// Consuming in a group

func consume(bootstrap, group, topic, strategy, instance string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	gaveUp := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		say(map[string]any{"gave_up": numbers(lost), "at": time.Now().UnixMilli()})
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.AutoCommitInterval(200 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, gained map[string][]int32) {
			say(map[string]any{"gained": numbers(gained), "at": time.Now().UnixMilli()})
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, lost map[string][]int32) {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				log.Printf("commit: %v", err)
			}
			gaveUp(ctx, client, lost)
		}),
		kgo.OnPartitionsLost(gaveUp),
	}
	if strategy == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else if strategy != "-" {
		options = append(options, kgo.Balancers(balancers[strategy]))
	}
	if instance != "-" {
		options = append(options, kgo.InstanceID(instance), kgo.SessionTimeout(30*time.Second)) // it outlives a restart
	}
	client := connect(bootstrap, options...)
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fetches.EachRecord(func(r *kgo.Record) {
			say(map[string]any{"read": []int64{int64(r.Partition), r.Offset}})
		})
	}
	client.Close()
	say(map[string]any{"left": true})
}

func discover(bootstrap, group, prefix string, count int) {
	client := connect(bootstrap,
		kgo.ConsumerGroup(group),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics("^"+regexp.QuoteMeta(prefix)+".*"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
	)
	for found := 0; found < count; {
		client.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			say(map[string]any{"found": []any{r.Topic, r.Offset}})
			found++
		})
	}
	client.Close()
}

func numbers(byTopic map[string][]int32) []int32 {
	found := []int32{}
	for _, partitions := range byTopic {
		found = append(found, partitions...)
	}
	return found
}

// Records

func produce(bootstrap, topic, codec string) {
	client := connect(bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50*time.Millisecond),
		kgo.ProducerBatchCompression(codecs[codec]))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		record := &kgo.Record{Topic: topic, Partition: int32(number(fields[0])), Key: bytesOf(fields[1]), Value: bytesOf(fields[2])}
		for _, header := range fields[3:] {
			name, value, _ := strings.Cut(header, "=")
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: bytesOf(value)})
		}
		client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			check(err)
			say(map[string]any{"sent": []int64{int64(sent.Partition), sent.Offset}})
		})
	}
	check(client.Flush(context.Background()))
	client.Close()
}

func read(bootstrap, topic string, partition, count int) {
	from := map[string]map[int32]kgo.Offset{topic: {int32(partition): kgo.NewOffset().AtStart()}}
	client := connect(bootstrap, kgo.ConsumePartitions(from))
	for found := 0; found < count; {
		client.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			headers := [][]any{}
			for _, h := range r.Headers {
				headers = append(headers, []any{h.Key, h.Value})
			}
			say(map[string]any{"record": []any{r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, headers}})
			found++
		})
	}
	client.Close()
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
