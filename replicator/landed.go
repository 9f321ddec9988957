package replicator

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// errLost says that nothing on the target tells any more how far a lane came.
var errLost = errors.New("the position is lost")

// Landed brings a lane's stored picture up to what the target's log really holds, by its headers: the state topic is up
// to a second behind. It writes nothing, and needs neither the source nor a running service.
func Landed(ctx context.Context, dst *kafka.Cluster, st offsetsync.LaneState, id model.Lane) (offsetsync.LaneState, error) {
	p := kafka.Part{Topic: st.Opening.Identity.DstTopic, ID: st.Opening.Identity.Dst, Partition: id.Partition}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	start := dst.ListOffsets(ask, []kafka.Part{p}, kafka.AtStart, false)[p]
	end := dst.ListOffsets(ask, []kafka.Part{p}, kafka.AtEnd, false)[p]
	if err := firstErr(start.Err, end.Err); err != nil {
		return st, err
	}
	var was *kafka.Producer
	if got, ok := dst.DescribeProducers(ask, []kafka.Part{p})[p].Find(st.Opening.Term.PID); ok {
		was = &got
	}
	tail, err := landed(ctx, dst, p, st, start.Offset, end.Offset, was)
	if err != nil {
		return st, err
	}
	return st.Extend(tail)
}

// landed joins the headers between the stored cursor and end with the lane's plan. was is what the partition's leader
// remembered of the lane's producer before it was sealed, nil when it did not know it.
func landed(ctx context.Context, dst cluster, p kafka.Part, st offsetsync.LaneState, start, end int64, was *kafka.Producer) (offsetsync.Tailed, error) {
	old := st.Opening.Term
	var first []model.Landing
	if start > st.Cursor.Dst {
		l, err := untrimmed(ctx, dst, p, st, start, end, was)
		if err != nil {
			return offsetsync.Tailed{}, err
		}
		st.Cursor, first = st.At(l.Count, l.Dst), []model.Landing{l}
	}
	tail, err := offsetsync.Tail(Headers(ctx, dst, p, st.Cursor.Dst, end), old.PID, old.Epoch, st, nil)
	if err != nil {
		return tail, fmt.Errorf("%s/%d from target offset %d: %w", p.Topic, p.Partition, st.Cursor.Dst, err)
	}
	tail.Landings = append(first, tail.Landings...)
	return tail, nil
}

// untrimmed deals with a target log that begins behind the stored cursor: retention or DeleteRecords took headers that
// were not read yet. The first own header that is left tells the count; with none left, the leader's memory of the
// producer does. It returns where a record stands from which on everything is known.
func untrimmed(ctx context.Context, dst cluster, p kafka.Part, st offsetsync.LaneState, start, end int64, was *kafka.Producer) (model.Landing, error) {
	cur, old := st.Cursor, st.Opening.Term
	for h, err := range Headers(ctx, dst, p, start, end) {
		if err != nil {
			return model.Landing{}, err
		}
		if h.PID == old.PID && h.Epoch == old.Epoch && !h.Control() {
			cut := max(0, start-h.BaseOffset) // the log may begin inside the batch
			return model.Landing{Count: model.Unwrap(h.BaseSeq, cur.Count) + cut, Dst: h.BaseOffset + cut}, nil
		}
	}
	if was == nil || was.Epoch != old.Epoch || was.LastSequence < 0 {
		return model.Landing{}, fmt.Errorf("%w: the target log starts at %d, the state says %d records up to %d, and the leader does not know producer %d any more",
			errLost, start, cur.Count, cur.Dst, old.PID)
	}
	return model.Landing{Count: model.Unwrap(was.LastSequence, cur.Count) + 1, Dst: end}, nil
}
