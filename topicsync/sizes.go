package topicsync

import (
	"context"
	"fmt"
	"strconv"

	"lockstep/topicsync/drift"
)

// Sizes shows partitions and replicas that differ. It implements drift.Part; making topics grow is the Syncer's.
type Sizes struct{}

// Kind implements drift.Part.
func (Sizes) Kind() drift.Kind { return drift.Partitions }

// Pass implements drift.Part. It asks nobody.
func (Sizes) Pass(_ context.Context, s drift.Scope) drift.Outcome {
	o := drift.Outcome{Condition: drift.OK}
	for _, t := range s.Topics {
		if i, differs := partitionsOf(t); differs {
			o.Items = append(o.Items, i)
		}
		if i, differs := replicationOf(t, s.Link.ReplicationFactor); differs && s.Full {
			o.Items = append(o.Items, i)
		}
	}
	return o
}

func partitionsOf(t drift.Topic) (drift.Item, bool) {
	i := sizeItem(drift.Partitions, t, t.Partitions, t.DstPartitions)
	switch {
	case t.DstPartitions > t.Partitions:
		i.State, i.Side = drift.Kept, drift.Source
		i.Why = fmt.Sprintf("the target has %d partitions more; they stay empty", t.DstPartitions-t.Partitions)
		i.Remedy = fmt.Sprintf("kafka-topics.sh --bootstrap-server SERVER --alter --topic %s --partitions %d, on the source", t.Src, t.DstPartitions)
	case t.DstPartitions < t.Partitions:
		i.State, i.Wanted = drift.Pending, i.Source
		i.Why = "the target topic grows"
	default:
		return i, false
	}
	return i, true
}

func replicationOf(t drift.Topic, configured int) (drift.Item, bool) {
	i := sizeItem(drift.Replication, t, t.Replicas, t.DstReplicas)
	i.State, i.Side = drift.Excluded, drift.Target
	i.Why = "the replication of a topic that exists is not changed"
	if configured > 0 && configured == t.DstReplicas {
		i.Why, i.Side = fmt.Sprintf("the link's replication_factor is %d", configured), ""
	}
	return i, t.Replicas != t.DstReplicas && t.Replicas > 0 && t.DstReplicas > 0
}

func sizeItem(k drift.Kind, t drift.Topic, source, target int) drift.Item {
	return drift.Item{Kind: k, Topic: t.Src, DstTopic: t.Dst, Source: drift.Text(strconv.Itoa(source)), Target: drift.Text(strconv.Itoa(target))}
}
