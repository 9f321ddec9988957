package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Need is a request that brokers must take at least in a version.
type Need struct {
	Key     kmsg.Key
	Version int16
}

// oldest is the oldest Kafka that has everything which SourceNeeds and TargetNeeds list.
const oldest = "Kafka 2.1"

// SourceNeeds lists what lockstep cannot do without on a cluster that it reads: incremental fetch sessions, leader
// epochs in fetches and metadata, zstd.
func SourceNeeds() []Need {
	return []Need{{kmsg.Fetch, 10}, {kmsg.ListOffsets, 4}, {kmsg.Metadata, 7}, {kmsg.DescribeConfigs, 1}}
}

// TargetNeeds lists what lockstep cannot do without on a cluster that it writes: what SourceNeeds lists, for reading
// back, and producers with an epoch. What only one way of sealing needs is not in it.
func TargetNeeds() []Need {
	return append(SourceNeeds(), Need{kmsg.Produce, 7}, Need{kmsg.InitProducerID, 1}, Need{kmsg.CreateTopics, 2}, Need{kmsg.CreatePartitions, 0})
}

// UnsupportedBrokerError says that a broker lacks requests that lockstep cannot do without.
type UnsupportedBrokerError struct {
	Cluster string
	Broker  int32
	Lacks   []string // "Fetch up to version 6, not 10"
}

// Error implements error. It begins with UNSUPPORTED_BROKER, which runbooks look for.
func (e *UnsupportedBrokerError) Error() string {
	return fmt.Sprintf("UNSUPPORTED_BROKER: broker %d of cluster %s does not do; it takes %s; %s or newer is needed",
		e.Broker, e.Cluster, strings.Join(e.Lacks, ", "), oldest)
}

// Supports asks every broker whether it takes all the requests that are needed, and returns an *UnsupportedBrokerError
// of the first, by number, that does not. A broker that does not answer is left out, so that one which is down
// holds nobody up; the error is another one when none answers.
func (c *Cluster) Supports(ctx context.Context, needs []Need) error {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	meta, err := c.metadata(ctx, c.admin, []string{})
	if err != nil {
		return err
	}
	answered := false
	for _, broker := range slices.Sorted(maps.Keys(meta.Brokers)) {
		offers, berr := c.brokerOffers(ctx, broker)
		if berr != nil {
			err = fmt.Errorf("ask broker %d of cluster %s for its versions: %w", broker, c.cfg.Name, berr)
			continue
		}
		answered = true
		if lacks := lacking(needs, offers); len(lacks) > 0 {
			return &UnsupportedBrokerError{Cluster: c.cfg.Name, Broker: broker, Lacks: lacks}
		}
	}
	if answered {
		return nil
	}
	return err
}

// lacking says which needs offers do not meet.
func lacking(needs []Need, offers map[int16]offer) (out []string) {
	for _, n := range needs {
		o, ok := offers[n.Key.Int16()]
		known := kmsg.RequestForKey(n.Key.Int16()).MaxVersion()
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("no %s", n.Key.Name()))
		case o.max < n.Version:
			out = append(out, fmt.Sprintf("%s up to version %d, not %d", n.Key.Name(), o.max, n.Version))
		case o.min > known:
			out = append(out, fmt.Sprintf("%s from version %d on only, this program knows %d", n.Key.Name(), o.min, known))
		}
	}
	return out
}
