package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// load is what a source topic is filled with.
type load struct {
	name       string
	records    int
	batchBytes int32 // of a batch before compression
}

// partitions of every load: what the published figures were measured with.
const partitions = 4

// loads are the two shapes that decide about speed: large batches, where bytes cost, and small ones, where requests do.
// At scale 1: 300 MB of lz4 in batches of 50 KB, and 47 MB of lz4 in 14,000 batches.
func loads(scale float64) []load {
	return []load{
		{name: "large", records: int(880_000 * scale), batchBytes: 135 << 10},
		{name: "small", records: int(115_000 * scale), batchBytes: 8 << 10},
	}
}

// fill creates the topic and writes the load, with time stamps of now.
func (l load) fill(ctx context.Context, admin *kgo.Client, brokers []string) error {
	if err := createTopic(ctx, admin, l.name, partitions); err != nil {
		return err
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.ProducerBatchMaxBytes(l.batchBytes),
		kgo.ProducerLinger(100*time.Millisecond), kgo.MaxBufferedRecords(20_000),
	)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer cl.Close()
	var failures firstError
	r := rand.New(rand.NewPCG(uint64(l.records), uint64(l.batchBytes)))
	for i := range l.records {
		rec := &kgo.Record{Topic: l.name, Partition: int32(i % partitions), Value: document(r, i)}
		cl.Produce(ctx, rec, func(_ *kgo.Record, err error) { failures.add(err) })
	}
	if err := errors.Join(cl.Flush(ctx), failures.get()); err != nil {
		return fmt.Errorf("fill topic %s: %w", l.name, err)
	}
	return nil
}

// createTopic creates a topic of one replica and waits until its leaders answer, so that the first produce is taken.
func createTopic(ctx context.Context, admin *kgo.Client, name string, parts int32) error {
	if _, err := kadm.NewClient(admin).CreateTopic(ctx, parts, 1, nil, name); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	w := watch{admin: admin, topic: name, parts: parts, every: 20 * time.Millisecond}
	return w.until(ctx, func(int64) bool { return true })
}

// document is an order as JSON, about 1,020 bytes, of which lz4 leaves some 370.
func document(r *rand.Rand, i int) []byte {
	b := make([]byte, 0, 1100)
	b = append(b, `{"schema":"orders/v3","order_id":"`...)
	b = strconv.AppendInt(b, int64(i)+1_000_000_000, 10)
	b = append(b, `","created_by":"checkout-service","currency":"EUR","customer":{"customer_id":"`...)
	b = random(b, r, 24)
	b = append(b, `","segment":"returning","email_hash":"`...)
	b = random(b, r, 64)
	b = append(b, `"},"shipping":{"method":"standard","country":"DE","address_hash":"`...)
	b = random(b, r, 40)
	b = append(b, `"},"lines":[`...)
	for line := range 4 {
		if line > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"article_number":"`...)
		b = random(b, r, 16)
		b = append(b, `","quantity":`...)
		b = strconv.AppendInt(b, r.Int64N(9)+1, 10)
		b = append(b, `,"unit_price_cents":`...)
		b = strconv.AppendInt(b, r.Int64N(90_000)+10_000, 10)
		b = append(b, `,"warehouse":"central-01","tax":"standard"}`...)
	}
	b = append(b, `],"payment":{"provider":"card","status":"authorized","token":"`...)
	b = random(b, r, 48)
	return append(b, `"},"source":"web","release":"2026.11.3"}`...)
}

// random appends n characters that no compressor shortens by finding them again.
func random(b []byte, r *rand.Rand, n int) []byte {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	for n > 0 {
		for bits, left := r.Uint64(), 10; left > 0 && n > 0; bits, left, n = bits>>6, left-1, n-1 {
			b = append(b, alphabet[bits&63])
		}
	}
	return b
}

// firstError keeps the first of many errors that goroutines report.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
