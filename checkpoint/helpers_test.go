package checkpoint

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dial(t testing.TB, addrs []string, opts kafka.Options) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: addrs}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// uniqueGroup returns a group name that no other test uses.
func uniqueGroup(label string) string { return label + "-" + strings.ToLower(rand.Text()[:8]) }

// mustCommit commits offsets of a group that has no members, once the coordinator takes them.
func mustCommit(t testing.TB, c *kafka.Cluster, group string, offsets map[Key]Committed) {
	t.Helper()
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		refused, err := Commit(testContext(t), c, group, offsets)
		if err != nil {
			return false, err.Error()
		}
		for k, err := range refused {
			return false, k.String() + ": " + err.Error()
		}
		return true, ""
	})
}

// observed looks at named groups until it could be seen all of them that there are.
func observed(t testing.TB, c *kafka.Cluster, groups ...string) Picture {
	t.Helper()
	var p Picture
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p = Reread(testContext(t), c, groups)
		for g, err := range p.Failed {
			return false, g + ": " + err.Error()
		}
		return p.Partial == nil, "partial"
	})
	return p
}
