package model

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Lane names one source partition that one link copies into one target partition. It is the unit of order,
// ownership and recovery, and a map key everywhere. Topic is the name on the source.
type Lane struct {
	Link      string
	Topic     string
	Partition int32
}

// String returns "link:topic/partition".
func (l Lane) String() string {
	return l.Link + ":" + l.Topic + "/" + strconv.Itoa(int(l.Partition))
}

// Compare orders lanes by link, topic and partition.
func (l Lane) Compare(o Lane) int {
	return cmp.Or(cmp.Compare(l.Link, o.Link), cmp.Compare(l.Topic, o.Topic), cmp.Compare(l.Partition, o.Partition))
}

// TopicID is Kafka's topic id; the zero value means "not known".
type TopicID [16]byte

// IsZero reports whether the id is not known.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// String returns the id as 32 hexadecimal digits.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements encoding.TextMarshaler.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *TopicID) UnmarshalText(b []byte) error {
	if len(b) == hex.EncodedLen(len(id)) { // hex.Decode does not look how much fits
		if _, err := hex.Decode(id[:], b); err == nil {
			return nil
		}
	}
	return fmt.Errorf("parse topic id %q: want 32 hexadecimal digits", b)
}

// Identity says which two topics a lane joins. A topic that was deleted and created again has another id, and so
// is another identity.
type Identity struct {
	DstTopic string  `json:"dst_topic"`
	Src      TopicID `json:"src_id"`
	Dst      TopicID `json:"dst_id"`
}
