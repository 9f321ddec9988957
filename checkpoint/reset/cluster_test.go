package reset

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
)

// On a cluster that never had a group, the first question about one makes the topic that groups live in, and is answered
// with "not available".
func TestCluster_RereadWaitsForTheFirstCoordinator(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t)
	var asked atomic.Int32
	fake.ControlKey(int16(kmsg.FindCoordinator), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if asked.Add(1) > 2 {
			return nil, nil, false
		}
		req := r.(*kmsg.FindCoordinatorRequest)
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		for _, k := range req.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.NodeID, c.ErrorCode = k, -1, kerr.CoordinatorNotAvailable.Code
			resp.Coordinators = append(resp.Coordinators, c)
		}
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return resp, nil, true
	})
	p := Cluster{dial(t, fake)}.Reread(t.Context(), []string{"g"})
	if len(p.Failed) > 0 || p.Partial != nil || asked.Load() <= 2 {
		t.Errorf("%+v after %d questions", p, asked.Load())
	}
}
