package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

const (
	// fetchMin and fetchMax are how many groups one request asks for: half of a coordinator's groups within these bounds.
	// An answer for the most, with ten positions each, has about a megabyte.
	fetchMin, fetchMax = 500, 2500
	fetchInFlight      = 16 // requests to one coordinator
)

// look collects what the coordinators of one cluster answer.
type look struct {
	c     *kafka.Cluster
	want  func(string) bool
	last  map[string]Group // of an earlier look; may be nil
	moved error            // why the lists may be incomplete although all came

	mu     sync.Mutex // guards the fields below
	groups map[string]Group
	failed map[string]error
	silent map[int32]error // brokers that did not list their groups
}

func newLook(c *kafka.Cluster, want func(string) bool) *look {
	return &look{c: c, want: want, groups: map[string]Group{}, failed: map[string]error{}, silent: map[int32]error{}}
}

// list asks one broker for its groups.
func (l *look) list(ctx context.Context, broker int32, heard func()) []kafka.GroupListing {
	groups, err := l.c.ListGroups(ctx, broker, l.want)
	heard()
	l.took(broker, len(groups), err)
	return groups
}

// broker asks one broker for its groups and their offsets.
func (l *look) broker(ctx context.Context, broker int32, heard func()) {
	groups := l.list(ctx, broker, heard)
	with := make([]kafka.GroupListing, 0, len(groups))
	for _, g := range groups {
		if group := groupOf(g); group.Supported() {
			with = append(with, g)
		} else {
			l.found(group)
		}
	}
	l.fetch(ctx, broker, with, heard)
}

// took notes that a broker listed n groups, or why it did not.
func (l *look) took(broker int32, n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.silent[broker] = err
		return
	}
	if len(l.groups) == 0 {
		l.groups = make(map[string]Group, n)
	}
}

// fetch reads the offsets of groups at their coordinator: the first request alone, since it tells whether the broker
// answers for many groups at a time.
func (l *look) fetch(ctx context.Context, broker int32, groups []kafka.GroupListing, heard func()) {
	if len(groups) == 0 {
		return
	}
	size := min(fetchMax, max(fetchMin, (len(groups)+1)/2))
	done := l.fetchSome(ctx, broker, groups[:min(len(groups), size)], heard)
	if done == 1 {
		size = 1
	}
	rest := groups[done:]
	requests := (len(rest) + size - 1) / size
	inParallel(requests, fetchInFlight, func(i int) {
		l.fetchSome(ctx, broker, rest[i*size:min(len(rest), (i+1)*size)], heard)
	})
}

// fetchSome asks for the offsets of some groups in one request and returns how many of them, from the first, are settled.
func (l *look) fetchSome(ctx context.Context, broker int32, groups []kafka.GroupListing, heard func()) int {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	answers, err := l.c.FetchOffsets(ctx, broker, names)
	heard()
	if err != nil {
		l.fail(err, names...)
		return len(groups)
	}
	if len(answers) == 1 {
		groups = groups[:1]
	}
	of := make(map[string]*kmsg.OffsetFetchResponseGroup, len(answers))
	for i := range answers {
		of[answers[i].Group] = &answers[i]
	}
	topics := map[string]string{}
	for _, g := range groups {
		l.answered(groupOf(g), of[g.Name], topics)
	}
	return len(groups)
}

// answered takes what a coordinator answered about one group. Topic names are kept once.
func (l *look) answered(g Group, a *kmsg.OffsetFetchResponseGroup, topics map[string]string) {
	if a == nil {
		l.fail(errors.New("the coordinator left it out of its answer"), g.Name)
		return
	}
	switch err := kerr.ErrorForCode(a.ErrorCode); {
	case err == nil:
		if was := l.last[g.Name]; sameAs(was.Offsets, a.Topics) {
			g.Offsets = was.Offsets
		} else {
			readOffsets(&g, a.Topics, topics)
		}
		if !g.trace() {
			l.found(g)
		}
	case errors.Is(err, kerr.GroupIDNotFound):
	default:
		l.fail(fmt.Errorf("fetch offsets of group %s from cluster %s: %w", g.Name, l.c.Name(), err), g.Name)
	}
}

// trace reports whether a listed group is as good as gone: it has neither members nor positions. Brokers answer so for a
// group that was deleted since it was listed.
func (g Group) trace() bool {
	return g.Idle() && g.plain() && len(g.Offsets)+len(g.Unstable) == 0
}

// plain reports whether consumers made the group, or somebody who only commits.
func (g Group) plain() bool { return g.Protocol == "" || g.Protocol == "consumer" }

// found notes a group. Of two coordinators that list it, because it moves, the one that could be read counts.
func (l *look) found(g Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.groups[g.Name]; ok && len(was.Offsets) > len(g.Offsets) {
		return
	}
	l.groups[g.Name] = g
	delete(l.failed, g.Name)
}

func (l *look) fail(err error, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range names {
		if _, ok := l.groups[n]; !ok {
			l.failed[n] = err
		}
	}
}

func (l *look) picture() Picture {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Picture{Groups: l.groups, Failed: l.failed, Partial: l.moved}
	for _, broker := range slices.Sorted(maps.Keys(l.silent)) {
		p.Partial = errors.Join(p.Partial, l.silent[broker])
	}
	return p
}

func groupOf(g kafka.GroupListing) Group {
	return Group{Name: g.Name, Type: cmp.Or(GroupType(g.Type), TypeClassic), Protocol: g.Protocol, State: g.State}
}

// readOffsets fills in a group's positions. An offset of -1 is no position: some clients commit nothing that way.
func readOffsets(g *Group, answer []kmsg.OffsetFetchResponseGroupTopic, topics map[string]string) {
	n := 0
	for i := range answer {
		n += len(answer[i].Partitions)
	}
	g.Offsets = make(map[Key]Committed, n)
	for i := range answer {
		topic, ok := topics[answer[i].Topic]
		if !ok {
			topic = answer[i].Topic
			topics[topic] = topic
		}
		for j := range answer[i].Partitions {
			readOffset(g, topic, &answer[i].Partitions[j])
		}
	}
}

// sameAs reports whether an answer says just what is known.
func sameAs(known map[Key]Committed, answer []kmsg.OffsetFetchResponseGroupTopic) bool {
	n := 0
	for i := range answer {
		for j := range answer[i].Partitions {
			p := &answer[i].Partitions[j]
			if p.ErrorCode != 0 {
				return false
			}
			if p.Offset < 0 {
				continue
			}
			if o, ok := known[Key{answer[i].Topic, p.Partition}]; !ok || o != committedOf(p) {
				return false
			}
			n++
		}
	}
	return n > 0 && n == len(known)
}

func committedOf(p *kmsg.OffsetFetchResponseGroupTopicPartition) Committed {
	o := Committed{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
	if p.Metadata != nil {
		o.Metadata = *p.Metadata
	}
	return o
}

func readOffset(g *Group, topic string, p *kmsg.OffsetFetchResponseGroupTopicPartition) {
	key := Key{topic, p.Partition}
	if p.ErrorCode != 0 {
		if g.Unstable == nil {
			g.Unstable = map[Key]error{}
		}
		g.Unstable[key] = kerr.ErrorForCode(p.ErrorCode)
		return
	}
	if p.Offset < 0 {
		return
	}
	g.Offsets[key] = committedOf(p)
}

// inParallel calls do for 0 to n-1, at most limit calls at a time, and returns when all have returned.
func inParallel(n, limit int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}
