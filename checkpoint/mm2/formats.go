package mm2

import (
	"fmt"

	"lockstep/checkpoint"
)

// Checkpoint says where a group of the source goes on, on the target.
type Checkpoint struct {
	Group          string
	checkpoint.Key       // of the target
	Upstream       int64 // committed on the source
	Downstream     int64 // its translation
	Metadata       string
}

// Encode returns the record's key and value. It refuses texts of more than 32,767 bytes.
func (c Checkpoint) Encode() (key, value []byte, err error) {
	if err := fits(c.Group, c.Topic, c.Metadata); err != nil {
		return nil, nil, fmt.Errorf("encode checkpoint of %s: %w", c.Key, err)
	}
	key = appendInt32(appendString(appendString(nil, c.Group), c.Topic), c.Partition)
	value = appendInt64(appendInt64([]byte{0, version}, c.Upstream), c.Downstream)
	return key, appendString(value, c.Metadata), nil
}

// DecodeCheckpoint reads a record. It takes bytes behind the last field; it refuses null, less than all fields, and
// versions other than 0, with an error that wraps [ErrMalformed]. Where only the value is refused, what the key says is
// returned too.
func DecodeCheckpoint(key, value []byte) (Checkpoint, error) {
	var c Checkpoint
	k := parse("key", key)
	c.Group, c.Topic, c.Partition = k.string("group"), k.string("topic"), k.int32("partition")
	if k.err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: key: %w", k.err)
	}
	v := parse("value", value)
	v.version()
	c.Upstream, c.Downstream, c.Metadata = v.int64("upstream offset"), v.int64("downstream offset"), v.string("metadata")
	if v.err != nil {
		return Checkpoint{Group: c.Group, Key: c.Key}, fmt.Errorf("read checkpoint of group %q, %s: value: %w", c.Group, c.Key, v.err)
	}
	return c, nil
}

// OffsetSync says at which offset of the target a record of the source was stored.
type OffsetSync struct {
	checkpoint.Key // of the source
	Upstream       int64
	Downstream     int64
}

// Encode returns the record's key and value, which has no version. It refuses topics of more than 32,767 bytes.
func (s OffsetSync) Encode() (key, value []byte, err error) {
	if err := fits(s.Topic); err != nil {
		return nil, nil, fmt.Errorf("encode offset sync of %s: %w", s.Key, err)
	}
	return appendInt32(appendString(nil, s.Topic), s.Partition), appendInt64(appendInt64(nil, s.Upstream), s.Downstream), nil
}

// DecodeOffsetSync reads a record, as [DecodeCheckpoint] does.
func DecodeOffsetSync(key, value []byte) (OffsetSync, error) {
	var s OffsetSync
	k := parse("key", key)
	s.Topic, s.Partition = k.string("topic"), k.int32("partition")
	if k.err != nil {
		return OffsetSync{}, fmt.Errorf("read offset sync: key: %w", k.err)
	}
	v := parse("value", value)
	s.Upstream, s.Downstream = v.int64("upstream offset"), v.int64("downstream offset")
	if v.err != nil {
		return OffsetSync{}, fmt.Errorf("read offset sync of %s: value: %w", s.Key, v.err)
	}
	return s, nil
}

// Heartbeat says that the flow from one cluster to another lived at a time.
type Heartbeat struct {
	Source, Target string // the clusters' names
	Milliseconds   int64  // since 1970
}

// Encode returns the record's key and value. It refuses names of more than 32,767 bytes.
func (h Heartbeat) Encode() (key, value []byte, err error) {
	if err := fits(h.Source, h.Target); err != nil {
		return nil, nil, fmt.Errorf("encode heartbeat: %w", err)
	}
	return appendString(appendString(nil, h.Source), h.Target), appendInt64([]byte{0, version}, h.Milliseconds), nil
}

// DecodeHeartbeat reads a record, as [DecodeCheckpoint] does.
func DecodeHeartbeat(key, value []byte) (Heartbeat, error) {
	var h Heartbeat
	k := parse("key", key)
	h.Source, h.Target = k.string("source"), k.string("target")
	if k.err != nil {
		return Heartbeat{}, fmt.Errorf("read heartbeat: key: %w", k.err)
	}
	v := parse("value", value)
	v.version()
	h.Milliseconds = v.int64("time")
	if v.err != nil {
		return Heartbeat{}, fmt.Errorf("read heartbeat of %s to %s: value: %w", h.Source, h.Target, v.err)
	}
	return h, nil
}
