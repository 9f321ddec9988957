package replicator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// A coordinator that waits for a hanging transaction refuses every term. The lanes that need one say so and go on trying.
func TestTerms_CoordinatorThatNeverGives(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	dst.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		q := req.(*kmsg.InitProducerIDRequest)
		dst.KeepControl()
		if q.TransactionalID == nil {
			return nil, nil, false // the state topic's own writer
		}
		resp := q.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	})
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.offer(topic)
	l := r.m.lane(r.id(topic, 0))
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.why.detail, "take a term") && l.state != model.StateStopped, fmt.Sprintf("%s, %+v", l.state, l.why)
	})
}
