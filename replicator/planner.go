package replicator

import (
	"context"
	"errors"

	"lockstep/internal/failpoint"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// planLanes is how many lanes' jumps go into one write of the state topic.
const planLanes = 512

// newPlanQs returns a queue for each partition of the state topic.
func newPlanQs() (qs [statelog.Partitions]*queue) {
	for p := range qs {
		qs[p] = newQueue()
	}
	return qs
}

// planQ is where a lane waits for its jumps to be made durable.
func (m *Manager) planQ(l *lane) *queue {
	return m.planQs[statelog.PartitionOf(l.id.Topic, l.id.Partition)]
}

// runPlanner makes jumps durable before the batches behind them are sent. One write carries the jumps of many lanes;
// while it is under way, more collect for the next. Each partition of the state topic has a planner of its own, so that
// a broker that hangs holds up no lane whose jumps stand on another.
func (m *Manager) runPlanner(ctx context.Context, q *queue) {
	for {
		first, ok := q.wait(ctx)
		if !ok {
			return
		}
		lanes := []*lane{first}
		for len(lanes) < planLanes {
			l, ok := q.pop()
			if !ok {
				break
			}
			lanes = append(lanes, l)
		}
		m.plan(ctx, lanes)
	}
}

// planned is one lane's share of a plan write.
type planned struct {
	gen     uint32
	opening uint64
	jumps   []model.Jump
}

func (m *Manager) plan(ctx context.Context, lanes []*lane) {
	adds := make(map[model.Lane]offsetsync.PlanAdd, len(lanes))
	shares := make(map[*lane]planned, len(lanes))
	for _, l := range lanes {
		if p := l.takeJumps(); len(p.jumps) > 0 {
			shares[l] = p
			adds[l.id] = offsetsync.PlanAdd{Opening: p.opening, Jumps: p.jumps}
		}
	}
	if len(adds) == 0 {
		return
	}
	failpoint.Pass("before_plan")
	ok := m.untilDone(ctx, "write plan", model.ReasonStateTopic, lanes, func(ctx context.Context) error {
		err := m.store.Plan(ctx, adds)
		if wrong, ok := errors.AsType[*offsetsync.LaneError](err); ok {
			// Nothing of this write is durable, and this lane's share never will be.
			m.contradicted(wrong)
			delete(adds, wrong.Lane)
		}
		return err
	})
	failpoint.Pass("after_plan")
	if !ok {
		return
	}
	for l, p := range shares {
		l.jumpsDurable(p)
	}
}

// contradicted stops a lane whose plan or landing does not fit what was stored before.
func (m *Manager) contradicted(wrong *offsetsync.LaneError) {
	if l := m.lane(wrong.Lane); l != nil {
		l.stop(model.ReasonInternal, wrong.Error())
	}
}

// takeJumps hands out the lane's pending jumps for writing.
func (l *lane) takeJumps() planned {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := planned{gen: l.gen, opening: l.opening, jumps: l.pendingJumps}
	l.pendingJumps = nil
	if len(p.jumps) > 0 {
		l.planning++
	}
	return p
}

// jumpsDurable lets the batches behind written jumps go.
func (l *lane) jumpsDurable(p planned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.planning--
	if p.gen == l.gen {
		l.durableJumps += len(p.jumps)
	}
	l.m.wakeSender(l)
	l.turnLocked()
}
