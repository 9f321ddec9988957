package checkpoint

import (
	"strconv"
	"time"

	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// momentValue is the stored form of a moment. The time is in milliseconds since 1970.
type momentValue struct {
	V     int        `json:"v"`
	At    int64      `json:"at"`
	Mark  bool       `json:"mark,omitempty"`
	Parts []spotPart `json:"parts"`
}

type spotPart struct {
	Partition  int32 `json:"p"`
	Source     int64 `json:"src"`
	Translated int64 `json:"tr"`
	Target     int64 `json:"dst"`
	State      State `json:"state,omitempty"` // synced if it is left out
}

// momentEntry is the record of a slot, without a value: its tombstone.
func momentEntry(t subjectTopic, slot int) statelog.Entry {
	return statelog.Entry{Partition: partitionOf(t.group), Key: statelog.Key(kindHistory, t.group, t.topic, strconv.Itoa(slot))}
}

func splitMomentKey(key string) (t subjectTopic, slot int, ok bool) {
	parts, ok := statelog.SplitKey(key)
	if !ok || len(parts) != 4 {
		return t, 0, false
	}
	slot, err := strconv.Atoi(parts[3])
	return subjectTopic{parts[1], parts[2]}, slot, err == nil
}

func encodeMoment(t subjectTopic, m moment) statelog.Entry {
	v := momentValue{V: recordVersion, At: m.at.UnixMilli(), Mark: m.mark, Parts: make([]spotPart, len(m.spots))}
	for i, s := range m.spots {
		v.Parts[i] = spotPart{s.partition, s.source, s.translated, s.target, s.state}
		if s.state == StateSynced {
			v.Parts[i].State = ""
		}
	}
	e := momentEntry(t, m.slot)
	e.Value = encode(v)
	return e
}

// decodeMoment reads what encodeMoment wrote; a tombstone is a moment without anything.
func decodeMoment(e statelog.Entry, slot int) (moment, error) {
	m := moment{slot: slot}
	if e.Value == nil {
		return m, nil
	}
	var v momentValue
	if err := offsetsync.DecodeJSON(e.Key, e.Value, &v); err != nil {
		return m, err
	}
	m.at, m.mark, m.spots = time.UnixMilli(v.At), v.Mark, make([]spot, len(v.Parts))
	for i, p := range v.Parts {
		m.spots[i] = spot{p.Partition, p.Source, p.Translated, p.Target, p.State}
		if p.State == "" {
			m.spots[i].state = StateSynced
		}
	}
	return m, nil
}
