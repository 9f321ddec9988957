package reset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockstep/checkpoint"
)

// Offsets reads and writes the committed positions of one cluster's groups: [Cluster] does.
type Offsets interface {
	Reread(ctx context.Context, groups []string) checkpoint.Picture
	Commit(ctx context.Context, group string, offsets map[checkpoint.Key]checkpoint.Committed) (map[checkpoint.Key]error, error)
	Delete(ctx context.Context, group string, keys []checkpoint.Key) error
}

// Counts say what became of moves.
type Counts struct {
	Written  int // commits and deletions that the cluster acknowledged
	Verified int // of those: read back from the cluster as they were written
}

// commitsAtOnce bounds how many groups are written at the same time.
const commitsAtOnce = 16

// Apply carries out the moves that are not refused. It looks at the groups once more, leaves out what changed since the
// plan or has members now, has keep keep the rest (an error of it means that nothing was done), writes, and reads back
// what was written. The returned moves say how each ended.
func Apply(ctx context.Context, o Offsets, cluster string, moves []Move, keep func([]Move) error) ([]Move, Counts, error) {
	out := append([]Move(nil), moves...)
	look(ctx, o, cluster, out)
	var todo []Move
	for _, m := range out {
		if m.open() {
			todo = append(todo, m)
		}
	}
	if len(todo) == 0 {
		return out, Counts{}, nil
	}
	if err := keep(todo); err != nil {
		return nil, Counts{}, fmt.Errorf("keep the old positions: %w", err)
	}
	write(ctx, o, out)
	return out, verify(ctx, o, out), nil
}

// open says that a move is still to be done.
func (m Move) open() bool { return m.Refused == "" && m.Error == "" }

// look leaves out what is not as it was planned.
func look(ctx context.Context, o Offsets, cluster string, moves []Move) {
	now := Input{Cluster: cluster, Groups: o.Reread(ctx, groupsOf(moves))}
	for i := range moves {
		m := &moves[i]
		if !m.open() {
			continue
		}
		if m.Refused = now.refusal(m.Group); m.Refused != "" {
			continue
		}
		g := now.Groups.Groups[m.Group]
		if err := g.Unstable[m.Key]; err != nil {
			m.Refused = fmt.Sprintf("its position is about to change: %v", err)
		} else if is := offsetIn(g, m.Key); is != m.Old {
			m.Refused = fmt.Sprintf("it moved since the plan was made, to %s", offsetText(is))
		}
	}
}

func groupsOf(moves []Move) []string {
	names := make(map[string]bool)
	for _, m := range moves {
		if m.open() {
			names[m.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func offsetIn(g checkpoint.Group, k checkpoint.Key) int64 {
	if c, ok := g.Offsets[k]; ok {
		return c.Offset
	}
	return -1
}

func offsetText(off int64) string {
	if off < 0 {
		return "no position"
	}
	return fmt.Sprint(off)
}

// write writes the open moves, group by group. What failed has its Error.
func write(ctx context.Context, o Offsets, moves []Move) {
	byGroup := make(map[string][]*Move)
	for i := range moves {
		if moves[i].open() {
			byGroup[moves[i].Group] = append(byGroup[moves[i].Group], &moves[i])
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, commitsAtOnce)
	for group, ms := range byGroup {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			commit(ctx, o, group, ms)
			remove(ctx, o, group, ms)
		})
	}
	wg.Wait()
}

func commit(ctx context.Context, o Offsets, group string, ms []*Move) {
	offsets := make(map[checkpoint.Key]checkpoint.Committed)
	for _, m := range ms {
		if m.New >= 0 {
			offsets[m.Key] = checkpoint.Committed{Offset: m.New, LeaderEpoch: -1, Metadata: m.Metadata}
		}
	}
	if len(offsets) == 0 {
		return
	}
	denied, err := o.Commit(ctx, group, offsets)
	for _, m := range ms {
		if m.New < 0 {
			continue
		}
		switch why := errors.Join(err, denied[m.Key]); {
		case why == nil:
		case checkpoint.RefusedForMembers(why):
			m.Refused = fmt.Sprintf("the group became active: stop its members first (%v)", why)
		default:
			m.Error = why.Error()
		}
	}
}

func remove(ctx context.Context, o Offsets, group string, ms []*Move) {
	var keys []checkpoint.Key
	for _, m := range ms {
		if m.New < 0 && m.Old >= 0 {
			keys = append(keys, m.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	if err := o.Delete(ctx, group, keys); err != nil {
		for _, m := range ms {
			if m.New < 0 {
				m.Error = err.Error()
			}
		}
	}
}

// verify reads back what was written: an acknowledgement is no proof for somebody who goes by it in a failover.
func verify(ctx context.Context, o Offsets, moves []Move) (c Counts) {
	p := o.Reread(ctx, groupsOf(moves))
	for i := range moves {
		m := &moves[i]
		if !m.open() {
			continue
		}
		c.Written++
		g, ok := p.Groups[m.Group]
		is := offsetIn(g, m.Key)
		switch {
		case p.Failed[m.Group] != nil:
			m.Error = fmt.Sprintf("written, but not read back: %v", p.Failed[m.Group])
		case !ok && p.Partial != nil:
			m.Error = fmt.Sprintf("written, but not read back: %v", p.Partial)
		case is != m.New:
			m.Error = fmt.Sprintf("written, but read back as %s", offsetText(is))
		default:
			m.Done = true
			c.Verified++
		}
	}
	return c
}
