package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/replicator"
)

// The clients of a cluster are shared as long as its settings stay, and closed with the last link that uses them.
func TestClients_AreSharedUntilTheClusterChanges(t *testing.T) {
	t.Parallel()
	cs := newClients(slog.New(slog.DiscardHandler))
	cfg := config.Cluster{Name: "a", Brokers: []string{"127.0.0.1:1"}}
	take := func() *kafka.Cluster {
		t.Helper()
		s, err := cs.take(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ended := func(s *kafka.Cluster) bool { return s.Admin().Context().Err() != nil }
	one, two := take(), take()
	if one != two {
		t.Error("two links of one cluster have different clients")
	}
	cfg.ClientID = "other"
	three := take()
	if three == one {
		t.Error("a changed cluster has the clients of before")
	}
	cs.give(one)
	if ended(two) {
		t.Error("clients were closed while a link uses them")
	}
	cs.give(two)
	if !ended(two) || ended(three) {
		t.Errorf("closed: old %v, new %v; want only the old ones", ended(two), ended(three))
	}
	cs.give(three)
	if !ended(three) || len(cs.open) > 0 {
		t.Error("clients that nobody uses are kept")
	}
	cs.give(nil)
	if _, err := cs.take(config.Cluster{Name: "b"}); err == nil {
		t.Error("a cluster without brokers has clients")
	}
}

// linkThat is a link in one of its states of life.
func linkThat(name string, first, isReady, ended bool, err error) *running {
	r := &running{cfg: config.Link{Name: name}, first: first, link: &link{}, done: make(chan struct{})}
	r.link.ready.Store(isReady)
	if ended {
		r.close(err)
	}
	return r
}

func TestLinks_Judge(t *testing.T) {
	t.Parallel()
	refusal := refused(errors.New("not ours"))
	works := func() *running { return linkThat("works", true, true, false, nil) }
	for name, c := range map[string]struct {
		list []*running
		over bool
		err  error
	}{
		"all at work":                         {[]*running{works()}, false, nil},
		"refused at the start":                {[]*running{works(), linkThat("x", true, false, true, refusal)}, true, refusal},
		"refused after a long wait":           {[]*running{works(), late(linkThat("x", true, false, true, refusal))}, false, nil},
		"the only one after a long wait":      {[]*running{late(linkThat("x", true, false, true, refusal))}, true, refusal},
		"ended later, others go on":           {[]*running{works(), linkThat("x", true, true, true, refusal)}, false, nil},
		"refused after a reload":              {[]*running{works(), linkThat("x", false, false, true, refusal)}, false, nil},
		"the last one ended":                  {[]*running{linkThat("x", true, true, true, refusal)}, true, refusal},
		"copied once, one still at it":        {[]*running{works(), linkThat("x", true, true, true, nil)}, false, nil},
		"copied once":                         {[]*running{linkThat("x", true, true, true, nil)}, true, nil},
		"copied once, another only in part":   {[]*running{linkThat("x", true, true, true, nil), linkThat("y", true, true, true, refusal)}, true, refusal},
		"the only one at work is not ready":   {[]*running{linkThat("x", true, false, false, nil)}, false, nil},
		"one that could not be made, and one": {[]*running{works(), {cfg: config.Link{Name: "x"}, done: closed(), err: refusal}}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLinks(&node{log: slog.New(slog.DiscardHandler)})
			s.began = time.Now()
			s.set(c.list)
			over, err := s.judge(t.Context())
			if over != c.over || !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
				t.Errorf("over %v, error %v; want %v, %v", over, err, c.over, c.err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if over, err := s.judge(ended); over || err != nil {
				t.Errorf("links that were asked to end: over %v, error %v", over, err)
			}
		})
	}
}

// late has a link's end come long after the process began.
func late(r *running) *running {
	r.at = r.at.Add(time.Hour)
	return r
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestRunning_AStoppedLinkTellsWhy(t *testing.T) {
	t.Parallel()
	r := &running{cfg: config.Link{Name: "dr", Source: "a", Target: "b"}, done: closed(), err: errors.New("no such certificate"), at: time.Now()}
	a := r.show()
	if a.State != "stopped" || a.Detail != "no such certificate" || a.Remedy == "" || a.Reason == "" || a.Since.IsZero() {
		t.Errorf("shown as %+v", a)
	}
	if err := r.ready(); err == nil {
		t.Error("a stopped link is ready")
	}
}

func TestRunning_ALinkTakenAwayNamesItsOwner(t *testing.T) {
	t.Parallel()
	r := &running{cfg: config.Link{Name: "dr"}, done: closed(), err: refused(&replicator.OwnedError{Link: "dr", Owner: "other", Why: "another instance took it over"})}
	if a := r.show(); a.State != api.LinkStateNotOwned || a.Owner != "other" || a.Remedy != deposedRemedy {
		t.Errorf("shown as %+v", a)
	}
}

// A link that cannot read its state topic any more stops and says so: copying on, it would not see who takes it away.
func TestLinks_StopWithoutTheirStateTopic(t *testing.T) {
	t.Parallel()
	p := startNode(t, linkLine("steady", "orders")+linkLine("blind", "x"))
	for _, topic := range []string{"orders", "x"} {
		kafkatest.Topic(t, p.src, kafkatest.TopicOptions{Name: topic, Partitions: 1})
		kafkatest.Produce(t, p.src, topic, 0, kafkatest.Records(20, 1))
	}
	p.await("steady:orders/0 copying", "blind:x/0 copying")
	const state = "lockstep.blind.state"
	claim := kafkatest.Read(t, p.dst, state, 0, false)[0]
	kafkatest.Produce(t, p.dst, state, 0, []*kgo.Record{{Key: claim.Key, Value: []byte(`{"v":99}`)}})
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		l, err := p.client.Link(t.Context(), "blind")
		return err == nil && l.State == api.LinkStateStopped && l.Reason == string(model.ReasonStateTopic), fmt.Sprintf("%+v, %v", l, err)
	})
	p.await("steady:orders/0 copying", "blind:x/0 stopped")
}
