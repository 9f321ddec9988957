package reset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockstep/checkpoint"
	"lockstep/internal/statelog"
)

// Kept are the positions that one change overwrote, as they were before.
type Kept struct {
	ID        string
	At        time.Time
	By        string // who ordered the change
	Reason    string // why, in that person's words
	Does      string // the change, in words
	Cluster   string // whose groups
	Positions []KeptPosition
	// Whole is false when parts of it are not in the log: they were being written when the process died, and then the
	// change was not made.
	Whole bool

	stored []int // the parts that stand in the log
}

// KeptPosition is one position before and after a change. Offsets are -1 where there was none.
type KeptPosition struct {
	Group string
	checkpoint.Key
	Was      int64
	Metadata string // of Was
	Became   int64
}

const (
	kindUndo = "undo" // of the keys: undo/ID/PART
	// KeepNewest is how many changes of a link are kept.
	KeepNewest = 20
	// partBytes bounds what one entry holds, by a guess that is too high: a topic takes entries of a megabyte, and the
	// longest names and metadata make a quarter of one for a single position.
	partBytes  = 256 << 10
	keptFormat = 1
)

// keptValue is what is stored. Later versions may add fields; a reader of this version ignores them.
type keptValue struct {
	V         int            `json:"v"`
	At        time.Time      `json:"at"`
	By        string         `json:"by"`
	Reason    string         `json:"reason,omitempty"`
	Does      string         `json:"does"`
	Cluster   string         `json:"cluster"`
	Parts     int            `json:"parts"`
	Positions []keptPosition `json:"positions"`
}

type keptPosition struct {
	Group     string `json:"g"`
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Was       int64  `json:"was"`
	Metadata  string `json:"m,omitempty"`
	Became    int64  `json:"now"`
}

// writer and follower are what this needs of the link's state log; [statelog.Log] is both.
type writer interface {
	Put(context.Context, ...statelog.Entry) error
}

type follower interface {
	Follow(context.Context, func([]statelog.Entry)) error
	Barrier(context.Context) error
}

// NewID returns a name for a change. Later ones sort behind earlier ones.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102-150405") + fmt.Sprintf("-%04x", rand.Uint32N(1<<16))
}

// KeptOf makes what has to be kept before moves are carried out.
func KeptOf(moves []Move) []KeptPosition {
	out := make([]KeptPosition, len(moves))
	for i, m := range moves {
		out[i] = KeptPosition{Group: m.Group, Key: m.Key, Was: m.Old, Metadata: m.OldMetadata, Became: m.New}
	}
	return out
}

// Keep stores what a change is about to overwrite, and forgets the oldest of what was kept before, which the caller has
// read. It is durable when Keep returns without error.
func Keep(ctx context.Context, log writer, k Kept, before []Kept) error {
	entries, err := k.entries()
	if err != nil {
		return err
	}
	if err := log.Put(ctx, entries...); err != nil {
		return err
	}
	var old []statelog.Entry
	for _, o := range before[:max(0, len(before)+1-KeepNewest)] {
		for _, part := range o.stored {
			old = append(old, statelog.Entry{Partition: partitionOf(o.ID), Key: keptKey(o.ID, part)})
		}
	}
	if len(old) == 0 {
		return nil
	}
	return log.Put(ctx, old...)
}

// split cuts positions into those of one entry each.
func split(ps []KeptPosition) (out [][]KeptPosition) {
	from, size := 0, 0
	for i, p := range ps {
		n := 100 + 6*(len(p.Group)+len(p.Topic)+len(p.Metadata)) // JSON writes some characters as six
		if size += n; size > partBytes && i > from {
			out, from, size = append(out, ps[from:i]), i, n
		}
	}
	return append(out, ps[from:])
}

func (k Kept) entries() ([]statelog.Entry, error) {
	var out []statelog.Entry
	parts := split(k.Positions)
	for part, ps := range parts {
		v := keptValue{V: keptFormat, At: k.At.UTC(), By: k.By, Reason: k.Reason, Does: k.Does, Cluster: k.Cluster, Parts: len(parts)}
		for _, p := range ps {
			v.Positions = append(v.Positions, keptPosition{p.Group, p.Topic, p.Partition, p.Was, p.Metadata, p.Became})
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(out, statelog.Entry{Partition: partitionOf(k.ID), Key: keptKey(k.ID, part), Value: b})
	}
	return out, nil
}

func keptKey(id string, part int) string { return statelog.Key(kindUndo, id, strconv.Itoa(part)) }

// partitionOf puts all of a change into one partition.
func partitionOf(id string) int32 { return statelog.PartitionOf(kindUndo+"/"+id, 0) }

// ReadKept returns what is kept, oldest first. Nobody may follow the log meanwhile.
func ReadKept(ctx context.Context, log follower) ([]Kept, error) {
	following, stop := context.WithCancel(ctx)
	r := keptReader{values: make(map[string]map[int]keptValue)}
	ended, read := make(chan error, 1), make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- log.Follow(following, r.take) })
	wg.Go(func() { read <- log.Barrier(following) })
	var err error
	select {
	case err = <-read:
	case err = <-ended:
	}
	stop()
	wg.Wait()
	if err = errors.Join(err, r.err); err != nil {
		return nil, err
	}
	return r.all(), nil
}

// keptReader collects the parts of changes. It belongs to the goroutine that follows.
type keptReader struct {
	values map[string]map[int]keptValue
	err    error
}

func (r *keptReader) take(entries []statelog.Entry) {
	for _, e := range entries {
		parts, ok := statelog.SplitKey(e.Key)
		if !ok || len(parts) != 3 || parts[0] != kindUndo {
			continue
		}
		part, err := strconv.Atoi(parts[2])
		if err != nil || part < 0 {
			continue
		}
		if e.Value == nil {
			delete(r.values[parts[1]], part)
			continue
		}
		var v keptValue
		if err := json.Unmarshal(e.Value, &v); err != nil || v.V < 1 {
			r.err = fmt.Errorf("entry %s is not what lockstep writes: %w", e.Key, cmp.Or(err, errors.New("it has no version")))
			continue
		}
		if v.V > keptFormat {
			r.err = fmt.Errorf("entry %s was written by a newer lockstep (format %d)", e.Key, v.V)
			continue
		}
		if r.values[parts[1]] == nil {
			r.values[parts[1]] = make(map[int]keptValue)
		}
		r.values[parts[1]][part] = v
	}
}

func (r *keptReader) all() []Kept {
	var out []Kept
	for id, parts := range r.values {
		if len(parts) == 0 {
			continue
		}
		k := Kept{ID: id, Whole: true}
		for part := range maxPart(parts) + 1 {
			v, ok := parts[part]
			if !ok {
				k.Whole = false
				continue
			}
			k.stored = append(k.stored, part)
			k.At, k.By, k.Reason, k.Does, k.Cluster = v.At, v.By, v.Reason, v.Does, v.Cluster
			k.Whole = k.Whole && v.Parts == maxPart(parts)+1
			for _, p := range v.Positions {
				k.Positions = append(k.Positions, KeptPosition{p.Group, checkpoint.Key{Topic: p.Topic, Partition: p.Partition}, p.Was, p.Metadata, p.Became})
			}
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Kept) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return out
}

func maxPart(parts map[int]keptValue) (out int) {
	for p := range parts {
		out = max(out, p)
	}
	return out
}

// Targets are what brings the kept positions back. Those that did not exist are deleted.
func (k Kept) Targets() []Target {
	out := make([]Target, len(k.Positions))
	for i, p := range k.Positions {
		out[i] = Target{Group: p.Group, Key: p.Key, Spec: Spec{Kind: Delete}}
		if p.Was >= 0 {
			out[i].Spec = Spec{Kind: ToOffset, N: p.Was}
			out[i].Metadata = &p.Metadata
		}
	}
	return out
}

// Mention notes in a plan of undoing where a position moved after the change: what it was moved to goes too.
func (k Kept) Mention(p *Plan) {
	type name struct {
		group string
		key   checkpoint.Key
	}
	became := make(map[name]int64, len(k.Positions))
	for _, q := range k.Positions {
		became[name{q.Group, q.Key}] = q.Became
	}
	for i := range p.Moves {
		m := &p.Moves[i]
		if b, ok := became[name{m.Group, m.Key}]; ok && b != m.Old && m.Refused == "" {
			m.Note = joinNotes(m.Note, "it moved after the change, which had left it at "+offsetText(b))
		}
	}
}
