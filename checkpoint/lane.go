package checkpoint

import (
	"time"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// Lane is what a plan needs to know of one source partition.
type Lane struct {
	DstTopic string
	// SrcID is the id of the source topic that the map is about; zero when not known.
	SrcID model.TopicID
	Map   *offsetsync.Map // a picture of its own; nil before the lane was opened
	// Opening is the number of the newest opening: while it is the same, the map only grows.
	Opening uint64
	// Held is why offsets of the source do not mean what the map says: the source topic is another one (recreated,
	// source_replaced), or both sides disagree (diverged, plan_lost, target_lost). Empty while the map holds.
	Held model.Reason
	// Waits says, for people, what keeps a lane without a map from being opened; "" is nothing known.
	Waits string
	// SrcStart and SrcEnd are the source's log start and end, DstStart and DstEnd the target's; -1 when not known.
	SrcStart, SrcEnd int64
	DstStart, DstEnd int64
	// Readable is where a consumer of the source can read up to: its stable end, or its end on a read-uncommitted link.
	Readable int64
}

// Ages tells for how long records of the source have been readable, from points that the copying keeps.
type Ages interface {
	// Age returns how long the record at source offset src, or the first behind it, has been readable; 0 when there is
	// none. With atLeast nothing older is remembered: it may be more.
	Age(k Key, src int64) (age time.Duration, atLeast bool)
}

// Lanes tells the link's lanes as they are now, by source topic and partition. The maps answer for everything that was
// stored before the call. The result is the caller's.
type Lanes interface {
	Lanes() map[Key]Lane
}
