package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/pause"
)

// Commit writes positions of one group, as a client that is no member: the coordinator refuses it while the group has
// members. Leader epochs are not written, since they count in one cluster only; metadata is. A coordinator that is moving
// is asked again for a second or two. The map holds the positions that were refused, and why; with the error it is not
// known of any position whether it was written.
func Commit(ctx context.Context, c *kafka.Cluster, group string, offsets map[Key]Committed) (map[Key]error, error) {
	var refused map[Key]error
	err := atCoordinator(ctx, c, group, func(broker int32) (err error) {
		refused, err = commitAt(ctx, c, broker, group, offsets)
		return cmp.Or(err, moving(refused))
	})
	if len(refused) > 0 {
		err = nil
	}
	return refused, err
}

// DeleteOffsets takes positions from a group; those that it does not have are no error. It needs Kafka 2.4 or newer, and a
// group that has no members, or none that follow those topics.
func DeleteOffsets(ctx context.Context, c *kafka.Cluster, group string, keys []Key) error {
	return atCoordinator(ctx, c, group, func(broker int32) error { return deleteAt(ctx, c, broker, group, keys) })
}

const (
	coordinatorTries = 5
	coordinatorPause = 100 * time.Millisecond // before the second try, and twice as long before each further one
)

// atCoordinator lets do ask the group's coordinator, again while the answer is that another one is to be asked.
func atCoordinator(ctx context.Context, c *kafka.Cluster, group string, do func(broker int32) error) (err error) {
	for try := range coordinatorTries {
		at, lost := c.Coordinators(ctx, []string{group})
		if broker, ok := at[group]; ok {
			err = do(broker)
		} else {
			err = lost[group]
		}
		if !IsMoving(err) || !pause.For(ctx, coordinatorPause<<try) {
			break
		}
	}
	return err
}

// IsMoving reports whether a broker refused because the group's coordinator is on its way. Asking again does no harm, even
// if the commit was written before the old coordinator ended.
func IsMoving(err error) bool {
	for _, e := range []error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// moving returns the error of a commit that was refused because the coordinator is moving.
func moving(refused map[Key]error) error {
	for _, err := range refused {
		if IsMoving(err) {
			return err
		}
	}
	return nil
}

// commitBytes is about how much of a group is committed at once. A coordinator stores a commit as one batch, and refuses
// what does not fit into one: of a group with very many positions, its members commit only some each.
const commitBytes = 256 << 10

// commitAt sends a group's positions to a coordinator, in several commits where one would be too large.
func commitAt(ctx context.Context, c *kafka.Cluster, broker int32, group string, offsets map[Key]Committed) (map[Key]error, error) {
	refused := map[Key]error{}
	for part := range inBatches(group, offsets) {
		r, err := commitOnce(ctx, c, broker, group, part)
		if err != nil {
			return nil, err
		}
		maps.Copy(refused, r)
	}
	return refused, nil
}

// inBatches yields the positions in parts that are not too large, mostly all of them.
func inBatches(group string, offsets map[Key]Committed) iter.Seq[map[Key]Committed] {
	return func(yield func(map[Key]Committed) bool) {
		part, size := map[Key]Committed{}, 0
		for _, k := range slices.SortedFunc(maps.Keys(offsets), Key.Compare) {
			need := 100 + len(group) + len(k.Topic) + len(offsets[k].Metadata)
			if len(part) > 0 && size+need > commitBytes {
				if !yield(part) {
					return
				}
				part, size = map[Key]Committed{}, 0
			}
			part[k], size = offsets[k], size+need
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}

func commitOnce(ctx context.Context, c *kafka.Cluster, broker int32, group string, offsets map[Key]Committed) (map[Key]error, error) {
	resp, err := c.CommitOffsets(ctx, broker, commitRequest(group, offsets))
	if err != nil {
		return nil, err
	}
	refused := map[Key]error{}
	answered := make(map[Key]bool, len(offsets))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			k := Key{t.Topic, p.Partition}
			answered[k] = true
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				refused[k] = err
			}
		}
	}
	for k := range offsets {
		if !answered[k] {
			refused[k] = errors.New("the coordinator left it out of its answer")
		}
	}
	return refused, nil
}

func commitRequest(group string, offsets map[Key]Committed) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	topics := map[string]*kmsg.OffsetCommitRequestTopic{}
	for _, k := range slices.SortedFunc(maps.Keys(offsets), Key.Compare) {
		if topics[k.Topic] == nil {
			topics[k.Topic] = &kmsg.OffsetCommitRequestTopic{Topic: k.Topic}
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = k.Partition, offsets[k].Offset, -1
		p.Metadata = kmsg.StringPtr(offsets[k].Metadata)
		topics[k.Topic].Partitions = append(topics[k.Topic].Partitions, p)
	}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		req.Topics = append(req.Topics, *topics[name])
	}
	return req
}

func deleteAt(ctx context.Context, c *kafka.Cluster, broker int32, group string, keys []Key) error {
	resp, err := c.DeleteOffsets(ctx, broker, deleteRequest(group, keys))
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("delete offset of group %s for %s: %w", group, Key{t.Topic, p.Partition}, err))
			}
		}
	}
	return errors.Join(errs...)
}

func deleteRequest(group string, keys []Key) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	topics := map[string][]int32{}
	for _, k := range keys {
		topics[k.Topic] = append(topics[k.Topic], k.Partition)
	}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = name
		for _, n := range topics[name] {
			p := kmsg.NewOffsetDeleteRequestTopicPartition()
			p.Partition = n
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}
