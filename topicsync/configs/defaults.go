package configs

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/topicsync/drift"
)

// defaults returns settings that differ although the source does not set them: the brokers' defaults are other ones, or only
// the target sets them.
func (s subject) defaults() (items []drift.Item) {
	source, target := s.full[0], s.full[1]
	for _, key := range keys(source, target, s.theirs) {
		i := drift.Item{Kind: drift.Config, Topic: s.Src, DstTopic: s.Dst, Name: key, Source: valueOf(source, key), Target: valueOf(target, key)}
		_, explicit := s.source[key]
		_, written := s.record.Written[key]
		_, theirs := s.theirs[key]
		switch {
		case explicit, written, same(i.Source, i.Target), local(key):
			continue
		case theirs:
			i.State, i.Side, i.Why = drift.Kept, drift.Target, "only the target sets it"
			i.Remedy = fmt.Sprintf("kafka-configs.sh --bootstrap-server SERVER --alter --entity-type topics --entity-name %s --delete-config %s", s.Dst, key)
		case i.Source == nil, i.Target == nil:
			i.State, i.Why = drift.Default, "only one side's Kafka knows it"
		default:
			i.State, i.Side, i.Why = drift.Default, drift.Source, "the brokers' defaults differ"
			i.Remedy = fmt.Sprintf("set %s on the source topic: lockstep carries it over", key)
		}
		items = append(items, i)
	}
	return items
}

// local reports whether a setting is a matter of one cluster alone.
func local(key string) bool {
	return strings.Contains(key, "replication.throttled.replicas") || slices.Contains([]string{KeyTimestampType, KeyBeforeMax, KeyAfterMax, keyDifferenceMax}, key)
}
