package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// rivals are two instances with the same link.
type rivals struct {
	t             *testing.T
	src, dst      *kafkatest.Cluster
	topics        []string
	x             *traffic
	first, second *service
}

// newRivals starts the first instance under traffic. The link's user on the target is "" for everybody.
func newRivals(t *testing.T, src, dst *kafkatest.Cluster, user string) *rivals {
	t.Helper()
	r := &rivals{t: t, src: src, dst: dst, topics: trafficTopics(t, src, 1)}
	r.x = startTraffic(t, src, r.topics, seeded(t))
	c := linkBetween(src, dst, r.topics)
	c.backupUser = user
	r.first = newService(t, c).start()
	r.first.reached(stableEnds(t, src, r.topics...))
	r.second = newService(t, secondInstance(r.first, t))
	return r
}

// takes starts the second instance and waits until it copies.
func (r *rivals) takes(flags ...string) {
	r.t.Helper()
	r.second.flags = flags
	p := r.second.launch()
	kafkatest.Eventually(r.t, 90*time.Second, func() (bool, string) {
		if p.ended() {
			r.t.Fatalf("the second instance ended with exit code %d", p.cmd.ProcessState.ExitCode())
		}
		return r.second.client.Ready(r.t.Context()) == nil, tail(p.log(), 3)
	})
	r.second.reached(stableEnds(r.t, r.src, r.topics...))
}

// stepsAside waits for the end of the first instance and checks that it says why.
func (r *rivals) stepsAside() {
	r.t.Helper()
	if log := r.first.exits(3, 40*time.Second); !strings.Contains(log, "took it over") {
		r.t.Errorf("the old owner does not say why it ended:\n%s", tail(log, 10))
	}
}

// end checks that the target holds each record once and that no older term wrote behind a newer one.
func (r *rivals) end() {
	r.t.Helper()
	r.x.end()
	r.second.equal(r.src, r.dst, r.topics...)
	r.second.stop()
	nothingStale(r.t, r.dst, r.topics...)
}

// nothingStale checks that epochs only grow in a partition: behind a marker, or a batch, stands nothing of an older term
// of the same producer.
func nothingStale(t testing.TB, dst kafkatest.Target, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		for p := range partitions(t, dst, topic) {
			top := make(map[int64]int16)
			for _, b := range rawBatches(t, dst, topic, p) {
				if b.epoch < top[b.producer] {
					t.Errorf("%s/%d: offset %d was written in epoch %d, behind one of epoch %d", topic, p, b.base, b.epoch, top[b.producer])
				}
				top[b.producer] = b.epoch
			}
		}
	}
}

// A living owner is not touched, and the refusal names both ways out; --take-over takes the link from it at once.
func TestTakeOver_FromALivingOwner(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	r := newRivals(t, src, dst, "")
	r.second.launch()
	if log := r.second.exits(3, 20*time.Second); !strings.Contains(log, "--wait") || !strings.Contains(log, "--take-over") {
		t.Errorf("the refusal does not name the ways out:\n%s", tail(log, 5))
	}
	began := time.Now()
	r.takes("--take-over")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("taking over took %s: it waited for the owner's silence", took)
	}
	r.stepsAside()
	r.end()
}

// An instance that stands by does nothing at all to the link until the owner gives it up, and says whom it waits for.
func TestWait_UntilTheOwnerEnds(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	r := newRivals(t, src, dst, "")
	term, owner := r.first.term(), r.first.ownLink().Owner
	r.second.flags = []string{"--wait"}
	r.second.launch()
	kafkatest.Eventually(t, startPatience, func() (bool, string) {
		l, err := r.second.client.Link(t.Context(), r.second.link())
		return err == nil && l.State == api.LinkStateNotOwned && l.Owner == owner && !l.Since.IsZero() && l.Detail != "", fmt.Sprintf("%+v, %v", l, err)
	})
	if err := r.second.client.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "standing by") {
		t.Errorf("readyz says %v", err)
	}
	r.first.reached(stableEnds(t, src, r.topics...))
	if now := r.first.term(); now != term {
		t.Errorf("the term went from %d to %d while another instance stood by", term, now)
	}
	atMostMarkers(t, dst, r.topics, 0)
	r.first.stop()
	r.second.awaitReady(r.second.now())
	r.second.reached(stableEnds(t, src, r.topics...))
	if got := r.second.ownLink(); got.State == api.LinkStateNotOwned || got.Owner == owner || got.Detail != "" {
		t.Errorf("the link after it was taken: %+v", got)
	}
	r.end()
}

func (s *service) ownLink() api.Link {
	s.t.Helper()
	l, err := s.client.Link(s.t.Context(), s.link())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// sealWays are what the link's user may do everything with on the target, by the way to seal that this leaves.
func sealWays() map[string][]func(*kadm.ACLBuilder) *kadm.ACLBuilder {
	topics := func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Topics("*") }
	return map[string][]func(*kadm.ACLBuilder) *kadm.ACLBuilder{
		"direct":      {topics, func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Clusters() }},
		"transaction": {topics, func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.TransactionalIDs("*") }},
		"none":        {topics},
	}
}

// eachWay runs a scenario on a target of its own for each way to seal.
func eachWay(t *testing.T, scenario func(t *testing.T, way string, src, dst *kafkatest.Cluster)) {
	for way, grants := range sealWays() {
		t.Run(way, func(t *testing.T) {
			src, _ := pair(t)
			dst := kafkatest.Start(t, kafkatest.Options{Authorizer: true, HeapMB: 400,
				Security: kafkatest.Security{SASL: "PLAIN", Users: map[string]string{"lockstep": "lockstep"}}})
			for _, what := range grants {
				b := kadm.NewACLs().Allow("User:lockstep").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAll)
				grant(t, dst, what(b))
			}
			scenario(t, way, src, dst)
		})
	}
}

func grant(t testing.TB, c *kafkatest.Cluster, b *kadm.ACLBuilder) {
	t.Helper()
	made, err := c.Kadm().CreateACLs(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range made {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// sealsBy checks how the link says that it seals.
func (s *service) sealsBy(way string) {
	s.t.Helper()
	kafkatest.Eventually(s.t, 20*time.Second, func() (bool, string) {
		l := s.ownLink()
		return l.Seal == way && s.metric("lockstep_lanes_unsealed", s.link()) == 0, fmt.Sprintf("%+v", l)
	})
}

// An owner dies while another instance stands by.
func TestOwnership_KilledOwner(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	eachWay(t, func(t *testing.T, way string, src, dst *kafkatest.Cluster) {
		r := newRivals(t, src, dst, "lockstep")
		r.second.flags = []string{"--wait"}
		p := r.second.launch()
		kafkatest.Eventually(t, startPatience, func() (bool, string) {
			l, err := r.second.client.Link(t.Context(), r.second.link())
			return err == nil && l.State == api.LinkStateNotOwned, fmt.Sprintf("%+v, %v", l, err)
		})
		r.first.kill()
		kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
			return r.second.client.Ready(t.Context()) == nil, tail(p.log(), 3)
		})
		r.second.reached(stableEnds(t, src, r.topics...))
		r.second.sealsBy(way)
		r.first.launch()
		r.first.exits(3, 20*time.Second)
		r.end()
	})
}

// An owner is frozen, another instance takes the link, and the frozen one wakes.
func TestOwnership_FrozenOwnerWakes(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	eachWay(t, func(t *testing.T, way string, src, dst *kafkatest.Cluster) {
		r := newRivals(t, src, dst, "lockstep")
		r.first.now().freeze(t)
		frozen := time.Now()
		r.takes("--take-over")
		kafkatest.Eventually(t, 20*time.Second, func() (bool, string) { // as long as a silence has to last to be noticed
			return time.Since(frozen) > 7*time.Second, "frozen since " + frozen.String()
		})
		r.second.sealsBy(way)
		r.first.now().thaw(t)
		r.stepsAside()
		r.end()
	})
}

// An owner is cut off from the source, but not from the target, where it goes on beating: nobody takes the link away
// from it unless told to.
func TestOwnership_OwnerCutOffFromTheSource(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src := kafkatest.Start(t, kafkatest.Options{Proxied: true, HeapMB: 400})
	eachWay(t, func(t *testing.T, way string, _, dst *kafkatest.Cluster) {
		r := newRivals(t, src, dst, "lockstep")
		c := secondInstance(r.first, t)
		c.primary = ownBrokers(t, src)
		r.second = newService(t, c)
		src.Proxy(1).Drop(true)
		defer src.Proxy(1).Drop(false)
		r.second.launch()
		r.second.exits(3, 60*time.Second)
		r.takes("--take-over")
		r.stepsAside()
		src.Proxy(1).Drop(false)
		r.second.sealsBy(way)
		r.end()
	})
}

// ownBrokers are the addresses of the cluster's own listener, which no proxy cuts.
func ownBrokers(t testing.TB, c kafkatest.Target) []string {
	t.Helper()
	seeds, ok := c.Admin().OptValue(kgo.SeedBrokers).([]string)
	if !ok {
		t.Fatal("the cluster's client has no seeds")
	}
	return seeds
}

// A process that did not run for some seconds, and whose link nobody took, goes on in its term.
func TestSilence_GoesOnWhenTheLinkIsStillOurs(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	s := newService(t, linkBetween(src, dst, topics)).start()
	s.reached(stableEnds(t, src, topics...))
	term := s.term()
	s.now().freeze(t)
	frozen := time.Now()
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		return time.Since(frozen) > 7*time.Second, "frozen since " + frozen.String()
	})
	s.now().thaw(t)
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		log := s.now().log()
		return strings.Contains(log, "did not run for a while") && strings.Contains(log, "the link is still ours"), tail(log, 3)
	})
	x.end()
	s.equal(src, dst, topics...)
	if now := s.term(); now != term {
		t.Errorf("the term went from %d to %d", term, now)
	}
	s.stop()
	atMostMarkers(t, dst, topics, 0)
}
