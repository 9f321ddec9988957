package trim

import (
	"context"
	"maps"
	"slices"
	"strings"

	"lockstep/internal/kafka"
	"lockstep/topicsync/configs"
)

// opened returns the target topics whose retention is open and that delete at all. Somebody who set another retention on
// the target by hand wants the mirror to keep that; a topic whose settings cannot be read is left alone.
func opened(ctx context.Context, c *kafka.Cluster, parts map[kafka.Part]int64) map[string]bool {
	out := make(map[string]bool)
	for p := range parts {
		out[p.Topic] = false
	}
	names := slices.Sorted(maps.Keys(out))
	for name, s := range configs.Read(ctx, c, names, []string{configs.KeyRetention, configs.KeyCleanup}, true) {
		out[name] = s.Err == nil && isOpen(s.Effective)
	}
	return out
}

func isOpen(effective map[string]string) bool {
	policies := strings.Split(strings.ReplaceAll(effective[configs.KeyCleanup], " ", ""), ",")
	return effective[configs.KeyRetention] == configs.Forever && slices.Contains(policies, "delete")
}
