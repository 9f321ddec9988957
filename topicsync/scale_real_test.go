package topicsync

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/statelog"
	"lockstep/topicsync/acl"
	"lockstep/topicsync/configs"
	"lockstep/topicsync/drift"
	"lockstep/topicsync/quota"
)

// deaf hears nothing of a state topic: what the test itself wrote is known anyway.
type deaf struct{}

func (deaf) Handle(string, func(statelog.Entry) error) {}

// A pass over 5,000 topics with nothing to do is quick and small: names and partitions, settings, permissions and quotas.
func TestScale_FiveThousandTopics(t *testing.T) {
	kafkatest.Long(t)
	const topics = 5000
	cs := kafkatest.StartAll(t, kafkatest.Options{HeapMB: 1024}, kafkatest.Options{HeapMB: 1024})
	src, dst := cs[0], cs[1]
	createTopics(t, src, topics)
	state := statelog.New(dial(t, "dst", dst, ""), "dr", statelog.Options{})
	t.Cleanup(state.Close)
	if err := state.Ensure(within(t)); err != nil {
		t.Fatal(err)
	}
	journal := configs.NewJournal(deaf{}, state)
	s, _ := syncer(t, src, dst, func(o *Options) {
		o.Journal, o.Open, o.Interval = journal, func() bool { return true }, 0
		o.Link.Topics.Include = []string{"scale-.*"}
		o.Link.Configs.Retention = "open"
		o.Link.ACLs.Sync, o.Link.Quotas.Sync = true, true
	})
	k := NewKeeper(KeeperOptions{Scope: s.Scope, Parts: []drift.Part{
		Sizes{}, configs.New(configs.Options{Source: s.o.Src, Target: s.o.Dst, Journal: journal, CanTrim: func(string) bool { return true }}),
		acl.New(acl.Options{Source: s.o.Src, Target: s.o.Dst, Journal: acl.NewJournal(deaf{}, state)}),
		quota.New(quota.Options{Source: s.o.Src, Target: s.o.Dst, Journal: quota.NewJournal(deaf{}, state)}),
	}})
	began := time.Now()
	kafkatest.Eventually(t, 5*time.Minute, func() (bool, string) {
		_, err := s.once(t.Context())
		copied := len(slices.DeleteFunc(s.Topics(), func(st TopicStatus) bool { return st.State != TopicCopied }))
		return copied == topics, fmt.Sprintf("%d topics are copied, %v", copied, err)
	})
	t.Logf("%d topics were created on the target within %s", topics, time.Since(began).Round(time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := k.Once(ctx); err != nil { // notes what the source has
		t.Fatal(err)
	}
	pass := func() {
		if open, err := s.once(ctx); err != nil || open != 0 {
			t.Fatalf("%d topics are open: %v", open, err)
		}
		if err := k.Once(ctx); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	took, more := measured(pass)
	t.Logf("a pass with nothing to do took %s and %d MB more memory at most", took.Round(time.Millisecond), more>>20)
	for kind, o := range k.Report().Outcomes {
		for _, i := range o.Items {
			t.Errorf("%s: a pass with nothing to do does or shows %+v", kind, i)
			break
		}
	}
	if took > 10*time.Second || more > 150<<20 {
		t.Errorf("want less than 10 s and 150 MB")
	}
}

// measured returns how long something takes, and by how much the heap in use grows meanwhile.
func measured(do func()) (time.Duration, uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, most := heap(), uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, heap())
			case <-stop:
				return
			}
		}
	}()
	began := time.Now()
	do()
	took := time.Since(began)
	close(stop)
	<-stopped
	return took, most - min(most, before)
}

// createTopics creates topics of one partition, some with settings of their own.
func createTopics(t *testing.T, c *kafkatest.Cluster, n int) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 60_000
		for i := from; i < from+500; i++ {
			x := kmsg.NewCreateTopicsRequestTopic()
			x.Topic, x.NumPartitions, x.ReplicationFactor = fmt.Sprintf("scale-%05d", i), 1, 1
			if i%2 == 0 {
				s := kmsg.NewCreateTopicsRequestTopicConfig()
				s.Name, s.Value = "retention.ms", kmsg.StringPtr("86400000")
				x.Configs = append(x.Configs, s)
			}
			req.Topics = append(req.Topics, x)
		}
		resp, err := req.RequestWith(within(t), c.Admin())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resp.Topics {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				t.Fatalf("create %s: %v", r.Topic, err)
			}
		}
	}
}
