package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// runningService starts this program as a service between two fakes.
func runningService(t *testing.T, src, dst *kafkatest.Fake) *copier {
	t.Helper()
	c, err := newCopier(t.TempDir(), src.Brokers(), dst.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Cleanup(c.kill)
	if err := c.start(ctx); err != nil {
		t.Fatalf("%v%s", err, c.tail())
	}
	return c
}

// awaitLink waits until the link is in a state and its lanes are where they should be.
func awaitLink(t *testing.T, c *copier, state string, at func([]api.Lane) bool) {
	t.Helper()
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		l, err := c.client.Link(t.Context(), demoLink)
		if err != nil {
			return false, err.Error()
		}
		lanes, err := c.client.Lanes(t.Context(), demoLink)
		if err != nil {
			return false, err.Error()
		}
		text, _ := json.Marshal(lanes)
		return l.State == state && at(lanes), fmt.Sprintf("link %s (%s), lanes %s%s", l.State, l.Reason, text, c.tail())
	})
}

// The commands against a service that really copies.
func TestCare_PauseAndResumeARunningLink(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(10, 1))
	c := runningService(t, src, dst)
	atOffset := func(n int64) func([]api.Lane) bool {
		return func(lanes []api.Lane) bool { return len(lanes) == 1 && lanes[0].SourceOffset == n }
	}
	awaitLink(t, c, api.LinkStateCopying, atOffset(10))

	command := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := lockstep(t, append(args, "--server", c.url())...)
		if code != want {
			t.Fatalf("%v: exit code %d, want %d: %s%s%s", args, code, want, out, errs, c.tail())
		}
		return out + errs
	}
	if plan := command(exitOK, "links", "pause", demoLink, "--dry-run"); !strings.Contains(plan, demoLink) {
		t.Errorf("plan:\n%s", plan)
	}
	command(exitOK, "links", "pause", demoLink, "--yes", "--reason", "ticket 7")
	awaitLink(t, c, api.LinkStatePaused, atOffset(10))
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(5, 2))
	for _, args := range [][]string{{"status"}, {"links", "show", demoLink}} {
		if shown := command(exitOK, args...); !strings.Contains(shown, "ticket 7") || !strings.Contains(shown, "lockstep links resume "+demoLink) {
			t.Errorf("%v does not tell why and what to do:\n%s", args, shown)
		}
	}
	command(exitOK, "links", "resume", demoLink, "--yes")
	awaitLink(t, c, api.LinkStateCopying, atOffset(15))
	kafkatest.MustEqual(t, src, dst, []kafkatest.Pair{{Src: topic, Dst: topic}})

	for _, args := range [][]string{{"lanes", "retry", demoLink + ":" + topic + "/0"}, {"links", "accept", demoLink}, {"lanes", "skip", demoLink + ":" + topic + "/0", "--to", "17"}} {
		if said := command(exitRefused, append(args, "--yes")...); !strings.Contains(said, "refused") {
			t.Errorf("%v: %s", args, said)
		}
	}
	command(exitOK, "lanes", "retry", "--link", demoLink, "--all", "--yes")
}
