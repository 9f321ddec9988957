package checkpoint

import (
	"slices"
	"strconv"
	"time"

	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// baseValue is the stored form of the bases of a group in a slice of a topic. Times are milliseconds since 1970.
type baseValue struct {
	V     int        `json:"v"`
	Parts []basePart `json:"parts"`
}

type basePart struct {
	Partition int32  `json:"p"`
	Source    int64  `json:"src"`
	Next      int64  `json:"next"`
	At        int64  `json:"at"`
	Opening   uint64 `json:"o"`
	// Was are values before Next: how much more each was than Next, how many milliseconds before At it was written, and
	// whether it has landed, 0 or 1.
	Was     [][3]int64    `json:"was,omitempty"`
	Ahead   bool          `json:"ahead,omitempty"`
	Suspect *suspectValue `json:"suspect,omitempty"`
	// DstGroup is left out where it is the group's own name.
	DstGroup string `json:"dst_group,omitempty"`
}

type suspectValue struct {
	Source  int64  `json:"src"`
	Since   int64  `json:"since"`
	Forever bool   `json:"forever,omitempty"`
	Why     string `json:"why"`
}

// sliceParts is how many partitions share a record: with all that is remembered of each it has 300 kB, and brokers take
// one megabyte.
const sliceParts = 1000

// slice is the part of a topic that is in one record.
type slice struct {
	topic string
	n     int32
}

func sliceOf(k Key) slice { return slice{k.Topic, k.Partition / sliceParts} }

// baseKey names a record; the first slice of a topic, mostly the only one, goes without number.
func baseKey(group string, s slice) string {
	if s.n == 0 {
		return statelog.Key(kindBase, group, s.topic)
	}
	return statelog.Key(kindBase, group, s.topic, strconv.Itoa(int(s.n)))
}

func splitBaseKey(key string) (group string, s slice, ok bool) {
	parts, ok := statelog.SplitKey(key)
	switch {
	case !ok:
		return "", s, false
	case len(parts) == 3:
		return parts[1], slice{parts[2], 0}, true
	case len(parts) != 4:
		return "", s, false
	}
	n, err := strconv.ParseInt(parts[3], 10, 32)
	return parts[1], slice{parts[2], int32(n)}, err == nil && n > 0
}

// encodeBases writes the bases of a group in a slice of a topic, by partition.
func encodeBases(group string, s slice, of map[int32]Base) statelog.Entry {
	e := statelog.Entry{Partition: partitionOf(group), Key: baseKey(group, s)}
	if len(of) == 0 {
		return e // a tombstone
	}
	v := baseValue{V: recordVersion, Parts: make([]basePart, 0, len(of))}
	for p, b := range of {
		v.Parts = append(v.Parts, partOf(p, b))
	}
	slices.SortFunc(v.Parts, func(a, b basePart) int { return int(a.Partition) - int(b.Partition) })
	e.Value = encode(v)
	return e
}

func partOf(p int32, b Base) basePart {
	v := basePart{Partition: p, Source: b.Source, Next: b.Next, At: b.At.UnixMilli(), Opening: b.Opening, Ahead: b.Ahead, DstGroup: b.DstGroup}
	for _, w := range stored(b) {
		landed := int64(0)
		if w.Landed {
			landed = 1
		}
		v.Was = append(v.Was, [3]int64{w.Offset - b.Next, b.At.Sub(w.At).Milliseconds(), landed})
	}
	if s := b.Suspect; s != nil {
		v.Suspect = &suspectValue{s.Source, s.Since.UnixMilli(), s.Forever, s.Why}
	}
	return v
}

func (v basePart) base() Base {
	b := Base{Source: v.Source, Next: v.Next, At: time.UnixMilli(v.At), Opening: v.Opening, Ahead: v.Ahead, DstGroup: v.DstGroup}
	for _, w := range v.Was {
		at := b.At.Add(-time.Duration(w[1]) * time.Millisecond)
		b.Was = append(b.Was, Stamped{Offset: v.Next + w[0], At: at, Landed: w[2] != 0})
	}
	if s := v.Suspect; s != nil {
		b.Suspect = &Suspicion{s.Source, time.UnixMilli(s.Since), s.Forever, s.Why}
	}
	return b
}

// decodeBases reads what encodeBases wrote; a tombstone is none.
func decodeBases(e statelog.Entry) (map[int32]Base, error) {
	if e.Value == nil {
		return nil, nil
	}
	var v baseValue
	if err := offsetsync.DecodeJSON(e.Key, e.Value, &v); err != nil {
		return nil, err
	}
	of := make(map[int32]Base, len(v.Parts))
	for _, p := range v.Parts {
		of[p.Partition] = p.base()
	}
	return of, nil
}
