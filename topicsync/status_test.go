package topicsync

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestStatusOf(t *testing.T) {
	t.Parallel()
	w := Wanted{Src: topicMeta("orders", 2, 1), Dst: topicMeta("orders", 2, 1), Exists: true}
	for name, tc := range map[string]struct {
		ready int
		err   error
		want  TopicState
	}{
		"all offered":        {2, nil, TopicCopied},
		"one missing":        {1, nil, TopicWaiting},
		"leader on its way":  {1, fmt.Errorf("ask: %w", kerr.NotLeaderForPartition), TopicWaiting},
		"connection":         {0, errors.New("EOF"), TopicWaiting},
		"not authorized":     {0, topicError("create", "orders", "dst", "Create", kerr.TopicAuthorizationFailed), TopicFailed},
		"too many replicas":  {0, topicError("create", "orders", "dst", "Create", kerr.InvalidReplicationFactor), TopicFailed},
		"target topic gone":  {0, errTargetLost, TopicTargetLost},
		"throttled by quota": {0, kerr.ThrottlingQuotaExceeded, TopicWaiting},
	} {
		st := statusOf("dr", w, tc.ready, tc.err)
		if st.State != tc.want || st.Ready != tc.ready || st.Partitions != 2 {
			t.Errorf("%s: %+v", name, st)
		}
		if (st.State == TopicFailed || st.State == TopicTargetLost) && st.Remedy == "" {
			t.Errorf("%s: no remedy", name)
		}
	}
}

func TestRetry_PausesGrowToABound(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var r retry
	if !r.due(now) {
		t.Error("the first attempt has to wait")
	}
	var last time.Duration
	for range 10 {
		r.failed(now, time.Second)
		if r.due(now) || r.pause < last || r.pause > longestRetry {
			t.Fatalf("pause %s after %s", r.pause, last)
		}
		last, now = r.pause, r.after
		if !r.due(now) {
			t.Fatal("not due when its time has come")
		}
	}
	if last != longestRetry {
		t.Errorf("pause ends at %s", last)
	}
}
