package checkpoint

import (
	"cmp"
	"fmt"
)

// Key names a partition that a group has a position in. In pictures of the source it is the source's topic, in pictures
// of the target the target's.
type Key struct {
	Topic     string
	Partition int32
}

// String returns "topic/partition".
func (k Key) String() string { return fmt.Sprintf("%s/%d", k.Topic, k.Partition) }

// Compare orders keys by topic and partition.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Topic, o.Topic), cmp.Compare(k.Partition, o.Partition))
}

// GroupType is Kafka's group type.
type GroupType string

// The group types. A broker older than KIP-848 tells none; its groups are classic.
const (
	TypeClassic  GroupType = "classic"
	TypeConsumer GroupType = "consumer" // KIP-848
	TypeShare    GroupType = "share"
	TypeStreams  GroupType = "streams"
)

// Committed is a committed position: the next offset to read.
type Committed struct {
	Offset      int64
	LeaderEpoch int32  // -1 when not known
	Metadata    string // the consumer's own text
}

// Group is a consumer group as one cluster shows it at one time.
type Group struct {
	Name     string
	Type     GroupType
	Protocol string // the protocol type: "consumer", "connect", …; "" of a group that only commits
	// State is Kafka's word: Empty, Stable, PreparingRebalance, Dead, …; "" when it is not known, which counts as active.
	State   string
	Offsets map[Key]Committed
	// Unstable are positions that an open transaction is about to change, or that could not be read for another passing
	// reason: what was known of them before stays true.
	Unstable map[Key]error
}

// Idle reports whether the group certainly has no members.
func (g Group) Idle() bool { return g.State == "Empty" || g.State == "Dead" }

// Supported reports whether the group keeps its positions as committed offsets.
func (g Group) Supported() bool { return g.Type == TypeClassic || g.Type == TypeConsumer }

// Picture is what one cluster showed in one look.
type Picture struct {
	// Groups are those that were listed and wanted, by name, also those of unsupported types (without offsets).
	Groups map[string]Group
	// Failed are wanted groups that are there, or may be, and could not be read: not the same as having vanished.
	Failed map[string]error
	// Partial says why the list itself is incomplete: a broker did not answer. Groups that are missing in it may exist.
	Partial error
}
