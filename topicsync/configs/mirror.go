package configs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/topicsync/drift"
)

// The names of topic settings that are treated specially.
const (
	KeyMinISR         = "min.insync.replicas"
	KeyCleanup        = "cleanup.policy"
	KeyRetention      = "retention.ms"
	KeyRetentionBytes = "retention.bytes"
	KeyTimestampType  = "message.timestamp.type"
	KeyBeforeMax      = "message.timestamp.before.max.ms"
	KeyAfterMax       = "message.timestamp.after.max.ms"
	keyDifferenceMax  = "message.timestamp.difference.max.ms" // former name of the two above; Kafka 4 does not know it any more
)

const (
	// unbounded opens a mirror for records of any time: they keep their time, however old, and a target that compares it
	// with its clock (Kafka 4 allows one hour ahead by default) would stop a lane over a record that the source took.
	unbounded = "9223372036854775807"
	// Forever has a mirror keep records until lockstep deletes what the source has deleted.
	Forever = "-1"
)

// Mirror says what the settings of a mirror depend on, besides the source's.
type Mirror struct {
	Link     string                // its name, for remedies
	Exclude  func(key string) bool // configs.exclude
	Replicas int                   // of the mirror; 0 is not known
	MinISR   int                   // the target brokers' default of min.insync.replicas; 0 is not known
	Open     bool                  // retention is opened: lockstep deletes what the source deleted
	Promoted bool                  // it is no mirror any more: everything as on the source
}

// Want is a setting that a mirror is to have.
type Want struct {
	Value string
	State drift.State // Pending, or Opened where it differs from the source on purpose
	Why   string      // it differs from the source; "" where it does not
}

// Left is a setting of the source topic that the target topic does not get, or not as it is, and why.
type Left struct{ Key, Value, Why string }

// Wanted returns the explicit settings that a mirror is to have for the source's explicit ones, and those that it is not
// to have, by key.
func (m Mirror) Wanted(source map[string]string) (want map[string]Want, left map[string]Left) {
	want, left = make(map[string]Want), make(map[string]Left)
	for key, value := range source {
		switch why := m.never(key); {
		case why != "":
			left[key] = Left{key, value, why}
		case m.Exclude(key):
			left[key] = Left{key, value, "configs.exclude names it"}
		default:
			want[key] = Want{Value: value, State: drift.Pending}
		}
	}
	m.minISR(want)
	if !m.Promoted {
		m.open(want)
	}
	return want, left
}

// never says why a setting does not go along, "" when it does.
func (m Mirror) never(key string) string {
	switch key {
	case "leader.replication.throttled.replicas", "follower.replication.throttled.replicas":
		return "it names brokers of the source"
	case "confluent.placement.constraints":
		return "it names racks of the source"
	case KeyTimestampType:
		if !m.Promoted {
			return "records keep their source's time; it follows at promotion"
		}
	case KeyBeforeMax, KeyAfterMax, keyDifferenceMax:
		if !m.Promoted {
			return "a mirror takes records of any time; it follows at promotion"
		}
	}
	return ""
}

// minISR never asks for more replicas in sync than there are, which would refuse every write: neither by the source's
// setting nor by the target brokers' default.
func (m Mirror) minISR(want map[string]Want) {
	asked, explicit := want[KeyMinISR]
	n, err := strconv.Atoi(asked.Value)
	if !explicit {
		n, err = m.MinISR, nil
	}
	if err != nil || m.Replicas == 0 || n <= m.Replicas || m.Exclude(KeyMinISR) {
		return
	}
	why := fmt.Sprintf("the source asks for %d, and the mirror has no more than %d replicas", n, m.Replicas)
	if !explicit {
		why = fmt.Sprintf("the target brokers' default is %d, and the mirror has no more than %d replicas", n, m.Replicas)
	}
	want[KeyMinISR] = Want{Value: strconv.Itoa(m.Replicas), State: drift.Pending, Why: why}
}

// open adds what a mirror has as long as it is one.
func (m Mirror) open(want map[string]Want) {
	for _, key := range []string{KeyBeforeMax, KeyAfterMax} {
		if !m.Exclude(key) {
			want[key] = Want{Value: unbounded, State: drift.Opened, Why: "a mirror takes records of any time"}
		}
	}
	if !m.Open || want[KeyCleanup].Value == "compact" {
		return
	}
	for _, key := range []string{KeyRetention, KeyRetentionBytes} {
		if !m.Exclude(key) {
			want[key] = Want{Value: Forever, State: drift.Opened, Why: "a mirror keeps records until the source has dropped them"}
		}
	}
}

// keys returns the keys of maps, sorted, each once.
func keys[A, B, C any](a map[string]A, b map[string]B, c map[string]C) []string {
	all := slices.Collect(maps.Keys(a))
	all = append(all, slices.Collect(maps.Keys(b))...)
	all = append(all, slices.Collect(maps.Keys(c))...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Named returns the keys that a broker's message contains as whole words, in their order.
func Named(message string, of []string) []string {
	words := strings.FieldsFunc(message, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	})
	for i := range words {
		words[i] = strings.Trim(words[i], ".")
	}
	var found []string
	for _, key := range of {
		if slices.Contains(words, key) {
			found = append(found, key)
		}
	}
	return found
}
