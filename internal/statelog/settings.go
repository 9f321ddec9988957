package statelog

import (
	"fmt"
	"strconv"
	"strings"
)

// setting is one topic setting that the design asks for.
type setting struct {
	name string
	want string
	// vital settings are refused when they differ; the others cost only time or space and are repaired.
	vital bool
	why   string
}

// settingsFor returns the wanted settings of a state topic with the given replication factor.
func settingsFor(replication int) []setting {
	minISR := "1"
	if replication >= 3 {
		minISR = "2"
	}
	return []setting{
		{"cleanup.policy", "compact", true, "with any other policy the cluster deletes state that is still needed"},
		{"min.insync.replicas", minISR, false, "an acknowledged entry has to outlive one broker"},
		{"segment.bytes", strconv.Itoa(4 << 20), false, "only closed segments are compacted, and what is not is read at a failover"},
		{"segment.ms", strconv.Itoa(10 * 60 * 1000), false, "only closed segments are compacted"},
		{"min.cleanable.dirty.ratio", "0.1", false, "a topic that is cleaned late takes long to read at a failover"},
	}
}

// Wrong is one setting of a state topic that is not as it must be.
type Wrong struct {
	Setting string
	Is      string
	Want    string
	Why     string
	Repair  string // the command line that repairs it
}

// SettingsError says that a state topic's settings would lose state. Its text names each setting and the command that
// repairs it; nothing is written to such a topic.
type SettingsError struct {
	Topic   string
	Cluster string
	Wrong   []Wrong
}

// Error implements error.
func (e *SettingsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "state topic %s on cluster %s is not usable as it is", e.Topic, e.Cluster)
	for _, w := range e.Wrong {
		fmt.Fprintf(&b, "; %s is %s, must be %s (%s); repair: %s", w.Setting, w.Is, w.Want, w.Why, w.Repair)
	}
	return b.String()
}

// compare sorts the settings that differ from the wanted ones into those that forbid to go on and those that do not.
// Settings that the broker does not report are left alone.
func compare(want []setting, is map[string]string) (vital, lesser []Wrong) {
	for _, s := range want {
		v, ok := is[s.name]
		if !ok || sameValue(v, s.want) {
			continue
		}
		w := Wrong{Setting: s.name, Is: v, Want: s.want, Why: s.why}
		if s.vital {
			vital = append(vital, w)
		} else {
			lesser = append(lesser, w)
		}
	}
	return vital, lesser
}

// sameValue compares numbers by value: brokers print 0.1 and 0.10 alike.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// alterConfigLine is the command that sets one topic setting.
func alterConfigLine(bootstrap, topic, name, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --entity-type topics --entity-name %s --alter --add-config %s=%s",
		bootstrap, topic, name, value)
}

// partitionsWrong says what to do about a wrong number of partitions. Kafka can only add some; a lane's state stands in
// a partition that follows from their number, so a topic that already holds state must not be changed either.
func partitionsWrong(bootstrap, topic string, is int) Wrong {
	repair := fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d (only while the topic is empty)", bootstrap, topic, Partitions)
	if is > Partitions {
		repair = fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --delete --topic %s (only while the topic is empty), then start again", bootstrap, topic)
	}
	return Wrong{
		Setting: "number of partitions", Is: strconv.Itoa(is), Want: strconv.Itoa(Partitions),
		Why: "a lane's state is looked for in the partition that follows from it", Repair: repair,
	}
}

// createLine is the command that makes the topic by hand, for clusters on which lockstep may not.
func createLine(bootstrap, topic string, replication int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d --replication-factor %d", bootstrap, topic, Partitions, replication)
	for _, s := range settingsFor(replication) {
		fmt.Fprintf(&b, " --config %s=%s", s.name, s.want)
	}
	return b.String()
}
