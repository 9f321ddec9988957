package replicator

import (
	"testing"

	"lockstep/internal/kafkatest"
)

// A lane that the store refuses keeps no other lane's cursor from being noted as stored.
func TestFlush_OneLaneThatIsNotOpen(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(2, nil)
	r.produce(topic, 0, 5)
	r.offer(topic)
	r.copied(topic, 0, 1)
	wrong, good := r.m.lane(r.id(topic, 0)), r.m.lane(r.id(topic, 1))
	wrong.mu.Lock()
	opening := wrong.opening
	wrong.opening += 100
	wrong.saved.Count--
	wrong.mu.Unlock()
	r.produce(topic, 1, 5)
	r.copied(topic, 1)
	r.m.Flush(t.Context())
	good.mu.Lock()
	if good.saved != good.cursor {
		t.Errorf("stored is %+v, the lane stands at %+v", good.saved, good.cursor)
	}
	good.mu.Unlock()
	wrong.mu.Lock()
	wrong.opening = opening
	wrong.mu.Unlock()
}
