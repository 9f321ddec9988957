package mm2

import "testing"

func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names                                                               Names
		checkpoints, syncsOnTarget, syncsOnSource, heartbeats, fromUpstream string
	}{
		{Names{Source: "A", Target: "B"}, "A.checkpoints.internal", "mm2-offset-syncs.A.internal", "mm2-offset-syncs.B.internal", "heartbeats", "A.heartbeats"},
		{Names{Source: "A", Target: "B", Separator: "_"}, "A_checkpoints_internal", "mm2-offset-syncs_A_internal", "mm2-offset-syncs_B_internal", "heartbeats", "A_heartbeats"},
	} {
		n := c.names
		for _, got := range [][2]string{{n.Checkpoints(), c.checkpoints}, {n.OffsetSyncs(false), c.syncsOnTarget}, {n.OffsetSyncs(true), c.syncsOnSource},
			{n.Heartbeats(), c.heartbeats}, {n.RemoteHeartbeats(), c.fromUpstream}} {
			if got[0] != got[1] {
				t.Errorf("%+v: got %s, want %s", n, got[0], got[1])
			}
		}
	}
}
