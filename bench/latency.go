package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	latencyTopic = "latency"
	latencyEvery = 10 * time.Millisecond // one record: 100 a second
	latencyWarm  = 200                   // records before those that count
	latencyLate  = 20 * time.Second      // a record that is not there by then is lost
)

// latency measures, for each copier, how long a record takes from the moment it is sent to the source until a consumer
// of the target has it. "direct" is a consumer of the source itself: what the measuring takes without any copy.
func (s *stage) latency(ctx context.Context) (*latency, error) {
	out := &latency{PerSecond: int(time.Second / latencyEvery), Copiers: map[string]delays{}}
	for n, c := range append([]copier{nil}, s.running...) {
		name := "direct"
		if c != nil {
			name = c.name()
		}
		d, err := s.delaysOf(ctx, c, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		say("latency: %-8s p50 %.2f ms, p99 %.2f ms, max %.2f ms", name, d.P50, d.P99, d.Max)
		out.Copiers[name] = d
	}
	return out, nil
}

// delaysOf measures one copier over a topic of its own; nil is no copier at all.
func (s *stage) delaysOf(ctx context.Context, c copier, n int) (_ delays, err error) {
	topic := fmt.Sprintf("%s-%d", latencyTopic, n)
	if err := createTopic(ctx, s.src.Admin(), topic, 1); err != nil {
		return delays{}, err
	}
	if c == nil {
		return s.sendAndSee(ctx, topic, s.src.Brokers(), topic)
	}
	j, err := c.plan(ctx, topic, 1, n, true)
	if err != nil {
		return delays{}, err
	}
	p, err := j.start(ctx)
	if err != nil {
		return delays{}, err
	}
	watched, cancel := p.watched(ctx)
	defer cancel()
	d, err := s.seeCopy(watched, topic, j)
	u, stopErr := p.stop()
	d.CPU = u.cpu.Seconds()
	return d, errors.Join(err, stopErr, s.sweep(ctx, j.litter...))
}

// seeCopy waits for the target topic and measures.
func (s *stage) seeCopy(ctx context.Context, topic string, j *job) (delays, error) {
	ready, cancel := context.WithTimeout(ctx, latencyLate)
	defer cancel()
	w := watch{admin: s.dst.Admin(), topic: j.to, parts: 1, every: 50 * time.Millisecond}
	if err := w.until(ready, func(int64) bool { return true }); err != nil {
		return delays{}, err
	}
	return s.sendAndSee(ctx, topic, s.dst.Brokers(), j.to)
}

// sendAndSee sends records to the source topic at a steady rate, and notes when a consumer of another topic has each.
func (s *stage) sendAndSee(ctx context.Context, from string, brokers []string, to string) (delays, error) {
	total := latencyWarm + int(s.latencyFor/latencyEvery)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(total)*latencyEvery*2+latencyLate)
	defer cancel()
	sent, seen := make([]time.Time, total), make([]time.Time, total)
	seeing := make(chan error, 1)
	go func() { seeing <- see(ctx, brokers, to, seen) }()
	if err := send(ctx, s.src.Brokers(), from, sent); err != nil {
		cancel()
		return delays{}, errors.Join(err, <-seeing)
	}
	if err := <-seeing; err != nil {
		return delays{}, err
	}
	var ms []float64
	for i := latencyWarm; i < total; i++ {
		ms = append(ms, float64(seen[i].Sub(sent[i]).Microseconds())/1000)
	}
	return newDelays(ms), nil
}

// send sends one record at every tick and notes when; the record's number is its value's first eight bytes.
func send(ctx context.Context, brokers []string, topic string, sent []time.Time) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(), kgo.ProducerLinger(0))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer cl.Close()
	var failures firstError
	tick := time.NewTicker(latencyEvery)
	defer tick.Stop()
	for i := range sent {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		value := binary.BigEndian.AppendUint64(nil, uint64(i))
		sent[i] = time.Now()
		cl.Produce(ctx, &kgo.Record{Topic: topic, Value: append(value, make([]byte, 1000)...)}, func(_ *kgo.Record, err error) { failures.add(err) })
	}
	return errors.Join(cl.Flush(ctx), failures.get())
}

// see consumes until every record has come, in order and once, and notes when.
func see(ctx context.Context, brokers []string, topic string, seen []time.Time) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DisableClientMetrics(), kgo.FetchMinBytes(1), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer cl.Close()
	for next := 0; next < len(seen); {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return fmt.Errorf("consume %s (%d of %d records came): %w", topic, next, len(seen), errors.Join(err, context.Cause(ctx)))
		}
		now := time.Now()
		for r := range fs.RecordsAll() {
			if got := binary.BigEndian.Uint64(r.Value); got != uint64(next) {
				return fmt.Errorf("consume %s: record %d came instead of %d", topic, got, next)
			}
			seen[next] = now
			next++
		}
	}
	return nil
}

func newDelays(ms []float64) delays {
	slices.Sort(ms)
	at := func(q float64) float64 { return ms[min(len(ms)-1, int(q*float64(len(ms))))] }
	return delays{Samples: len(ms), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: ms[len(ms)-1]}
}
