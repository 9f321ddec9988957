package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

const (
	scaleTopics, scalePartitions = 200, 10

	// What is promised for two thousand partitions. Time and processor are asserted with a factor of three, since the
	// machine may have other work; the figures are printed.
	scaleBudget     = 64 << 20
	scaleMemory     = scaleBudget + 150<<20
	scaleMoves      = 3 * 10 * time.Second
	scaleIdle       = 3 * 0.05 // of a core
	scaleIdleBroker = 3 * 0.40
)

// Two thousand partitions with more behind them than memory may hold: every lane moves, memory stays bounded, and when
// there is nothing to copy it costs next to nothing.
func TestScale_TwoThousandPartitions(t *testing.T) {
	kafkatest.Long(t)
	both := kafkatest.StartAll(t, kafkatest.Options{HeapMB: 768}, kafkatest.Options{HeapMB: 768})
	src, dst := both[0], both[1]
	w := newWideWriter(t, src)
	w.round(t, 5) // 80 KiB in each partition, more than twice the budget in all
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(w.prefix)}
	c.more = fmt.Sprintf("limits: {buffer_bytes: %dMiB}", scaleBudget>>20)
	s := newService(t, c)
	began := time.Now()
	s.launch()
	s.awaitListening()
	t.Logf("backlog: copied after %s; the longest that a lane stood still was %s", w.await(t, s, began), w.worst)
	s.idleCosts(t, src, dst)

	w.worst = 0
	began = time.Now()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.round(t, 2)
	}()
	w.await(t, s, began)
	<-written
	t.Logf("burst: copied after %s; the longest that a lane stood still was %s", w.await(t, s, began), w.worst)
	peak := peakMemory(t, s.now().cmd.Process.Pid)
	t.Logf("peak of resident memory: %d MiB, of which %d MiB are the budget", peak>>20, scaleBudget>>20)
	if peak > scaleMemory && !withRace() {
		t.Errorf("%d MiB of memory were used, allowed are %d MiB", peak>>20, scaleMemory>>20)
	}
	s.stop()
	w.equal(t, dst)
}

// idleCosts measures what service and brokers use while nothing is written.
func (s *service) idleCosts(t *testing.T, src, dst *kafkatest.Cluster) {
	t.Helper()
	const span = 20 * time.Second
	pids := []int{s.now().cmd.Process.Pid, src.PID(1), dst.PID(1)}
	var was [3]time.Duration
	for i, pid := range pids {
		was[i] = processorTime(t, pid)
	}
	began := time.Now()
	rest(t.Context(), span)
	took := time.Since(began)
	var share [3]float64
	for i, pid := range pids {
		share[i] = (processorTime(t, pid) - was[i]).Seconds() / took.Seconds()
	}
	t.Logf("idle: lockstep uses %.1f %% of a core, the source's broker %.1f %%, the target's %.1f %%", 100*share[0], 100*share[1], 100*share[2])
	if share[0] > scaleIdle && !withRace() {
		t.Errorf("lockstep uses %.0f %% of a core while nothing happens", 100*share[0])
	}
	if share[1] > scaleIdleBroker {
		t.Errorf("the source's broker uses %.0f %% of a core while nothing happens", 100*share[1])
	}
}

// wideWriter writes to very many partitions, and watches that none of their lanes is forgotten.
type wideWriter struct {
	src    *kafkatest.Cluster
	cl     *kgo.Client
	prefix string
	topics []string
	seed   uint64

	mu   sync.Mutex // guards ends
	ends map[string]int64

	// lanes as they were seen last
	at    map[string]int64
	since map[string]time.Time
	worst time.Duration // the longest that a lane with something to copy did not move
}

func newWideWriter(t *testing.T, src *kafkatest.Cluster) *wideWriter {
	t.Helper()
	w := &wideWriter{src: src, prefix: kafkatest.TopicName(t) + "-", seed: seeded(t), ends: make(map[string]int64),
		at: make(map[string]int64), since: make(map[string]time.Time)}
	for i := range scaleTopics {
		w.topics = append(w.topics, fmt.Sprint(w.prefix, i))
	}
	got, err := src.Kadm().CreateTopics(t.Context(), scalePartitions, 1, nil, w.topics...)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		t.Fatalf("create topics: %v", err)
	}
	w.cl = ownClient(t, src, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedBytes(64<<20), kgo.RecordDeliveryTimeout(2*time.Minute))
	return w
}

// round writes n records of 16 KiB to every partition. Any goroutine may call it.
func (w *wideWriter) round(t *testing.T, n int) {
	value := noise(16<<10, rand.Uint64())
	for _, topic := range w.topics {
		for p := range int32(scalePartitions) {
			for i := range n {
				r := &kgo.Record{Topic: topic, Partition: p, Key: fmt.Append(nil, i), Value: value}
				w.cl.Produce(t.Context(), r, func(r *kgo.Record, err error) { w.wrote(t, r, err) })
			}
		}
	}
	if err := w.cl.Flush(t.Context()); err != nil {
		t.Errorf("flush: %v", err)
	}
}

func (w *wideWriter) wrote(t *testing.T, r *kgo.Record, err error) {
	if err != nil {
		t.Errorf("produce: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[laneKey(r.Topic, r.Partition)] = r.Offset + 1
}

// await waits until all that was written has been copied, and returns how long after a moment that was.
func (w *wideWriter) await(t *testing.T, s *service, began time.Time) time.Duration {
	t.Helper()
	kafkatest.Eventually(t, 3*time.Minute, func() (bool, string) {
		rest(t.Context(), 250*time.Millisecond) // two thousand lanes are a long answer
		lanes, err := s.client.Lanes(t.Context(), s.link())
		if err != nil {
			return false, err.Error()
		}
		behind := w.look(lanes, time.Now())
		return len(lanes) == scaleTopics*scalePartitions && behind == 0, fmt.Sprintf("%d lanes, %d of them behind", len(lanes), behind)
	})
	if w.worst > scaleMoves {
		t.Errorf("a lane with something to copy stood still for %s", w.worst)
	}
	return time.Since(began).Round(100 * time.Millisecond)
}

// look notes where the lanes are and returns how many are behind. A lane that opens is not standing still.
func (w *wideWriter) look(lanes []api.Lane, now time.Time) (behind int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range lanes {
		key := laneKey(l.Topic, l.Partition)
		was, seen := w.at[key]
		w.at[key] = l.SourceOffset
		if l.SourceOffset >= w.ends[key] {
			delete(w.since, key)
			continue
		}
		behind++
		if _, waits := w.since[key]; !waits || !seen || l.SourceOffset > was || l.State == "opening" {
			w.since[key] = now
		}
		w.worst = max(w.worst, now.Sub(w.since[key]).Round(100*time.Millisecond))
	}
	return behind
}

// equal compares both sides: the ends of all partitions, which no crash moved, and every record of some topics.
func (w *wideWriter) equal(t *testing.T, dst *kafkatest.Cluster) {
	t.Helper()
	ends, err := kadm.NewClient(dst.Admin()).ListEndOffsets(t.Context(), w.topics...)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := 0
	ends.Each(func(o kadm.ListedOffset) {
		seen++
		if want := w.ends[laneKey(o.Topic, o.Partition)]; o.Err != nil || o.Offset != want {
			t.Errorf("%s/%d ends at %d on the target, at %d on the source (%v)", o.Topic, o.Partition, o.Offset, want, o.Err)
		}
	})
	if seen != scaleTopics*scalePartitions {
		t.Errorf("the target has %d partitions", seen)
	}
	r := rand.New(rand.NewPCG(w.seed, 7))
	var some []string
	for _, i := range r.Perm(len(w.topics))[:10] {
		some = append(some, w.topics[i])
	}
	kafkatest.MustEqual(t, w.src, dst, same(some...))
}
