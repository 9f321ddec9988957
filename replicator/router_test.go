package replicator

import "testing"

// A lane may wait for a leader at several queues: to be repaired, and to be looked at because the leader is a new one. None
// of them may forget it.
func TestRouter_LaneWaitsForALeaderAtSeveralQueues(t *testing.T) {
	t.Parallel()
	m, l, _ := newOpenLane(t)
	for _, q := range []*queue{m.repairQ, m.checkQ} {
		if _, ok := m.leaderOrPark(l, q); ok {
			t.Fatal("a leader is known")
		}
	}
	m.reroute()
	for name, q := range map[string]*queue{"repair": m.repairQ, "check": m.checkQ} {
		if got, ok := q.pop(); !ok || got != l {
			t.Errorf("the lane does not come back to the %s queue", name)
		}
	}
}
