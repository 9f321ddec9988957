package topicsync

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Setting is one explicit setting of a topic.
type Setting struct{ Key, Value string }

// Left is a setting of the source topic that the target topic did not get as it is, and why.
type Left struct{ Key, Value, Why string }

// The names of topic settings that are treated specially.
const (
	keyMinISR        = "min.insync.replicas"
	keyMaxMessage    = "max.message.bytes"
	keySegment       = "segment.bytes"
	keyCleanup       = "cleanup.policy"
	keyTimestampType = "message.timestamp.type"
	keyBeforeMax     = "message.timestamp.before.max.ms"
	keyAfterMax      = "message.timestamp.after.max.ms"
)

// unbounded opens a mirror topic for records of any time: they keep their time, however old, and a target that compares
// it with its clock (Kafka 4 allows one hour ahead by default) would stop a lane over a record that the source took.
const unbounded = "9223372036854775807"

// neverCopied returns the settings that do not go along, and why.
func neverCopied() map[string]string {
	return map[string]string{
		"leader.replication.throttled.replicas":   "it names brokers of the source",
		"follower.replication.throttled.replicas": "it names brokers of the source",
		"confluent.placement.constraints":         "it names racks of the source",
		keyTimestampType:                          "records keep their source's time; it follows at promotion",
		keyBeforeMax:                              "a mirror topic takes records of any time",
		keyAfterMax:                               "a mirror topic takes records of any time",
		// The former name of the two above, which Kafka 4 does not know any more.
		"message.timestamp.difference.max.ms": "a mirror topic takes records of any time",
	}
}

// planSettings returns the settings for a new topic with that many replicas, and what of the source's explicit settings
// is left out or changed. exclude are patterns that match whole names; refused are names that the target does not know.
func planSettings(explicit map[string]string, exclude []string, refused map[string]string, replication int16) ([]Setting, []Left) {
	var use []Setting
	var left []Left
	never, excluded := neverCopied(), matcher(exclude)
	for _, key := range slices.Sorted(maps.Keys(explicit)) {
		value := explicit[key]
		switch why, is := never[key]; {
		case is:
			left = append(left, Left{key, value, why})
		case excluded(key):
			left = append(left, Left{key, value, "configs.exclude names it"})
		case refused[key] != "":
			left = append(left, Left{key, value, "the target does not know it: " + refused[key]})
		case key == keyMinISR && tooMany(value, replication):
			use = append(use, Setting{key, strconv.Itoa(int(replication))})
			left = append(left, Left{key, value, fmt.Sprintf("set to %d: the target topic has no more replicas", replication)})
		default:
			use = append(use, Setting{key, value})
		}
	}
	for _, key := range []string{keyAfterMax, keyBeforeMax} {
		if refused[key] == "" {
			use = append(use, Setting{key, unbounded})
		}
	}
	return use, left
}

// tooMany reports whether a number of in-sync replicas can never be reached, which would refuse every write.
func tooMany(minISR string, replication int16) bool {
	n, err := strconv.Atoi(minISR)
	return err == nil && replication > 0 && n > int(replication)
}

// matcher returns whether one of the patterns matches a whole name. Patterns were checked when the configuration was
// read; one that is not valid matches nothing.
func matcher(patterns []string) func(string) bool {
	var all []*regexp.Regexp
	for _, p := range patterns {
		if re, err := regexp.Compile(`\A(?:` + p + `)\z`); err == nil {
			all = append(all, re)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(all, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
}

// named returns the settings whose names a broker's message contains as whole words, in the order of the settings.
func named(message string, settings []Setting) []string {
	words := strings.FieldsFunc(message, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	})
	for i := range words {
		words[i] = strings.Trim(words[i], ".")
	}
	var keys []string
	for _, s := range settings {
		if slices.Contains(words, s.Key) {
			keys = append(keys, s.Key)
		}
	}
	return keys
}
