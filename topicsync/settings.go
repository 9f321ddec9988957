package topicsync

import (
	"maps"
	"slices"
	"strings"

	"lockstep/topicsync/configs"
	"lockstep/topicsync/drift"
)

// Setting is one explicit setting of a topic.
type Setting struct{ Key, Value string }

// planSettings returns the settings for a new mirror, and what of the source's explicit settings is left out or changed.
// refused are names that the target does not know.
func planSettings(explicit map[string]string, m configs.Mirror, refused map[string]string) (use []Setting, left []configs.Left) {
	want, out := m.Wanted(explicit)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		w, value := want[key], explicit[key]
		_, asked := explicit[key]
		switch {
		case refused[key] != "" && asked && w.State != drift.Opened:
			left = append(left, configs.Left{Key: key, Value: value, Why: "the target does not know it: " + refused[key]})
		case refused[key] != "":
		default:
			use = append(use, Setting{key, w.Value})
			if asked && w.Why != "" {
				left = append(left, configs.Left{Key: key, Value: value, Why: "set to " + w.Value + ": " + w.Why})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(out)) {
		if _, ok := want[key]; !ok {
			left = append(left, out[key])
		}
	}
	slices.SortFunc(left, func(a, b configs.Left) int { return strings.Compare(a.Key, b.Key) })
	return use, left
}

func keysOf(settings []Setting) []string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.Key
	}
	return keys
}

func mapOf(settings []Setting) map[string]string {
	m := make(map[string]string, len(settings))
	for _, s := range settings {
		m[s.Key] = s.Value
	}
	return m
}
