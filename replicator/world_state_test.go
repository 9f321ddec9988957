package replicator

import (
	"context"
	"errors"
	"slices"

	"lockstep/internal/statelog"
)

// stateTopic is the link's state topic. Entries of one partition have one order; partitions have none between them.
type stateTopic struct {
	parts [statelog.Partitions][]statelog.Entry
	next  int64
}

func (s *stateTopic) append(e statelog.Entry) {
	e.Offset = s.next
	s.next++
	s.parts[e.Partition] = append(s.parts[e.Partition], e)
}

// compact keeps only the newest entry of each key among those below an offset. A tombstone goes, too, with luck.
func (s *stateTopic) compact(below int64, tombstones bool) {
	for p, es := range s.parts {
		newest := make(map[string]int64, len(es))
		for _, e := range es {
			if e.Offset < below {
				newest[e.Key] = e.Offset
			}
		}
		s.parts[p] = slices.DeleteFunc(slices.Clone(es), func(e statelog.Entry) bool {
			return e.Offset < below && (newest[e.Key] != e.Offset || tombstones && e.Value == nil)
		})
	}
}

// stateClient is one process's way to the state topic: it implements offsetsync.Log.
type stateClient struct {
	p     *proc
	apply func([]statelog.Entry)
	read  [statelog.Partitions]int64 // next offset
	// out are entries that were handed to the client and do not stand in the log yet. A dead process's may still land.
	out [statelog.Partitions][]*outEntry
}

// outEntry is an entry on its way.
type outEntry struct {
	statelog.Entry
	left *int // entries of the same call that have not landed
}

var errUnsure = errors.New("the state topic gave no answer")

func (c *stateClient) Link() string { return worldLink }

func (c *stateClient) Partition(topic string, p int32) int32 { return statelog.PartitionOf(topic, p) }

// Follow keeps the view's function: entries come when the world says so.
func (c *stateClient) Follow(_ context.Context, apply func([]statelog.Entry)) error {
	c.apply = apply
	return nil
}

// Barrier returns when all that stands in the topic now has been read.
func (c *stateClient) Barrier(context.Context) error {
	c.p.step("state barrier")
	if c.p.w.fault == faultStateNotReadAgain && c.p.justSealed {
		c.p.justSealed = false
		return nil
	}
	c.readAll()
	return nil
}

func (c *stateClient) readAll() {
	for p := range c.read {
		c.deliver(p, c.p.w.state.next)
	}
}

// deliver shows the view one partition's entries below an offset.
func (c *stateClient) deliver(part int, below int64) {
	var es []statelog.Entry
	for _, e := range c.p.w.state.parts[part] {
		if e.Offset >= c.read[part] && e.Offset < below {
			es = append(es, e)
		}
	}
	c.read[part] = max(c.read[part], below)
	if c.p.w.fault == faultNoLookForStop {
		es = c.p.w.unseen(c.p, es)
	}
	if len(es) == 0 {
		return
	}
	if c.p.w.fault == faultKeysWithoutOpening {
		for _, e := range es {
			c.apply([]statelog.Entry{c.p.w.ofNewestOpening(c.p, e)})
		}
		return
	}
	c.apply(es)
}

func (c *stateClient) Queue(_ context.Context, es ...statelog.Entry) (func(context.Context) error, error) {
	c.p.step("state write")
	left := new(int)
	for _, e := range es {
		e, ok := c.p.w.written(c.p, e)
		if !ok {
			continue
		}
		e.Value = slices.Clone(e.Value)
		*left++
		c.out[e.Partition] = append(c.out[e.Partition], &outEntry{Entry: e, left: left})
	}
	return func(context.Context) error { return c.wait(left) }, nil
}

// wait returns when a call's entries have landed, or without an answer when the world says so.
func (c *stateClient) wait(left *int) error {
	unsure := c.p.step("state answer") == orderFail
	if unsure {
		return errUnsure
	}
	for part := range c.out {
		for *left > 0 && slices.ContainsFunc(c.out[part], func(o *outEntry) bool { return o.left == left }) {
			c.land(part)
		}
	}
	return nil
}

// land writes the oldest entry that is on its way to a partition.
func (c *stateClient) land(part int) {
	o := c.out[part][0]
	c.out[part] = c.out[part][1:]
	*o.left--
	c.p.w.state.append(o.Entry)
	c.p.w.observe(o.Entry)
}

// lose gives up all that is on its way to a partition: it never arrives.
func (c *stateClient) lose(part int) {
	for _, o := range c.out[part] {
		*o.left--
	}
	c.out[part] = nil
}

// underWay returns the partitions to which something is on its way.
func (c *stateClient) underWay() (parts []int) {
	for part := range c.out {
		if len(c.out[part]) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}
