package replicator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// neighbours knows what other links do on the two clusters, from their state topics: a mirror topic belongs to one
// link, and what came from the target must not go back there under the same name. It is asked when a lane is opened
// for the first time.
type neighbours struct {
	m *Manager

	mu      sync.Mutex // guards the fields below; held while neighbours are read
	at      time.Time
	writers map[string]string // target topic → the other link that writes it
	mirrors map[string]string // source topic → the link that copies it from our target
	told    map[string]bool   // topics that were passed over
}

const (
	// neighboursFresh is how long a look at the neighbours counts.
	neighboursFresh = 5 * time.Second
	// neighbourPatience bounds reading one state topic.
	neighbourPatience = 5 * time.Second
)

func newNeighbours(m *Manager) *neighbours { return &neighbours{m: m, told: make(map[string]bool)} }

// unclaimed stops lanes that this link never copied and another link already has, and returns the others.
func (m *Manager) unclaimed(ctx context.Context, es []*entry) []*entry {
	if !slices.ContainsFunc(es, func(e *entry) bool { return !e.found }) {
		return es
	}
	if err := m.around.refresh(ctx); err != nil {
		m.laterAll(es, "look for other links", err)
		return nil
	}
	var ok []*entry
	for _, e := range es {
		if r, detail := m.around.conflict(e.lane.id.Topic, e.ident.DstTopic); !e.found && r != model.ReasonNone {
			e.lane.stop(r, detail)
			continue
		}
		ok = append(ok, e)
	}
	return ok
}

func (n *neighbours) conflict(src, dst string) (model.Reason, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if link, ok := n.writers[dst]; ok {
		return model.ReasonOtherLink, fmt.Sprintf("link %s already writes target topic %s", link, dst)
	}
	if link, ok := n.mirrors[src]; ok {
		return model.ReasonCycle, fmt.Sprintf("link %s copies topic %s from the cluster that this link writes to", link, src)
	}
	return model.ReasonNone, ""
}

func (n *neighbours) refresh(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m.now().Sub(n.at) < neighboursFresh {
		return nil
	}
	target, err := n.m.opt.Target.ID(ctx)
	if err != nil {
		return err
	}
	writers, mirrors := make(map[string]string), make(map[string]string)
	err = n.read(ctx, n.m.opt.Target, n.m.opt.Link, func(link string, _ offsetsync.Claim, dst string) { writers[dst] = link })
	if err != nil {
		return err
	}
	err = n.read(ctx, n.m.opt.Source, "", func(link string, c offsetsync.Claim, dst string) {
		if c.SourceCluster == target {
			mirrors[dst] = link
		}
	})
	if err != nil {
		return err
	}
	n.writers, n.mirrors, n.at = writers, mirrors, n.m.now()
	return nil
}

// read goes through the state topics on a cluster, except one link's, and reports every target topic of every link.
func (n *neighbours) read(ctx context.Context, c *kafka.Cluster, except string, found func(link string, claim offsetsync.Claim, dst string)) error {
	meta, err := c.Metadata(ctx)
	if err != nil {
		return err
	}
	for name := range meta.Topics {
		link, ok := linkOf(name)
		if !ok || link == except {
			continue
		}
		if err := readLink(ctx, c, link, found); err != nil {
			if !n.strange(name, err) {
				return fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	return nil
}

// strange reports whether a topic with the name of a state topic is passed over: it is none, or it may not be read. It
// must not hold up links that have nothing to do with it. A fault that will pass is no reason.
func (n *neighbours) strange(topic string, err error) bool {
	_, settings := errors.AsType[*statelog.SettingsError](err)
	_, newer := errors.AsType[*offsetsync.NewerFormatError](err)
	action, _ := kafka.Classify(err)
	closed := action == kafka.Wait || action == kafka.Stop || errors.Is(err, context.DeadlineExceeded)
	if !settings && !newer && !closed {
		return false
	}
	if !n.told[topic] {
		n.told[topic] = true
		n.m.log.Warn("passing over a topic that looks like another link's state and cannot be read as such", "topic", topic, "error", err)
	}
	return true
}

// linkOf returns the link whose state topic has the given name.
func linkOf(topic string) (string, bool) {
	link, ok := strings.CutSuffix(topic, ".state")
	link, prefixed := strings.CutPrefix(link, "lockstep.")
	return link, ok && prefixed && link != ""
}

func readLink(ctx context.Context, c *kafka.Cluster, link string, found func(string, offsetsync.Claim, string)) error {
	log := statelog.New(c, link, statelog.Options{})
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, neighbourPatience)
	defer cancel()
	if err := log.Check(ctx); err != nil {
		return err
	}
	view := offsetsync.NewView(log)
	ended := make(chan error, 1)
	go func() { ended <- view.Run(ctx) }()
	err := view.Barrier(ctx)
	if err == nil {
		claim, _ := view.Claim()
		for _, id := range view.Lanes() {
			if st, ok := view.Lane(id); ok {
				found(link, claim, st.Opening.Identity.DstTopic)
			}
		}
	}
	cancel()
	if rerr := <-ended; err != nil && rerr != nil && !errors.Is(rerr, context.Canceled) {
		return rerr // why the barrier was not reached
	}
	return err
}
