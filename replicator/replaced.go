package replicator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// A source is replaced when another cluster answers in its place, or the same one after it was restored from an older
// copy. Offsets then mean other records. The link stops as a whole, before anything is written, until an operator has
// looked: nothing is cut and nothing is mixed.

// Replacement says that the link's source is not what was copied from.
type Replacement struct {
	Detail string
	Since  time.Time
}

// replacement guards whether the source was replaced.
type replacement struct {
	mu      sync.Mutex // guards the fields below; a leaf
	now     *Replacement
	changed chan struct{} // closed when now changes
}

// Replaced returns what is known about a replaced source, nil while there is nothing, and a channel that is closed when
// that changes.
func (m *Manager) Replaced() (*Replacement, <-chan struct{}) {
	m.source.mu.Lock()
	defer m.source.mu.Unlock()
	return m.source.now, m.source.changed
}

func (m *Manager) setReplaced(r *Replacement) (news bool) {
	m.source.mu.Lock()
	defer m.source.mu.Unlock()
	if (m.source.now == nil) == (r == nil) {
		return false
	}
	m.source.now = r
	close(m.source.changed)
	m.source.changed = make(chan struct{})
	return true
}

// replaced stops the whole link. The caller holds no lane's lock.
func (m *Manager) replaced(detail string) {
	if m.setReplaced(&Replacement{Detail: detail, Since: m.now()}) {
		m.log.Error("the source was replaced; the link stops", "detail", detail,
			"remedy", model.Remedy(model.ReasonSourceReplaced, model.Lane{Link: m.opt.Link}))
	}
	for _, l := range m.all() {
		m.holdReplaced(l)
	}
}

// holdReplaced stops a lane while the source is a replaced one, and reports whether it is. A lane that had stopped before
// keeps its own reason: accepting the source would not help it. One that is paused reads nothing, and stays so.
func (m *Manager) holdReplaced(l *lane) bool {
	l.mu.Lock() // first: whoever accepts the source looks at each lane afterwards
	defer l.mu.Unlock()
	r, _ := m.Replaced()
	if r == nil {
		return false
	}
	if l.state != model.StateStopped && !l.releasedLocked() {
		l.stopLocked(model.ReasonSourceReplaced, r.Detail)
	}
	return true
}

// LookAtSource compares the source's cluster id with the one that the link copied from, and stops the link when it is
// another one. It reports whether the link is stopped for that.
func (m *Manager) LookAtSource(ctx context.Context) (bool, error) {
	id, err := m.src.ID(ctx)
	if err != nil {
		return false, fmt.Errorf("reach cluster %s: %w", m.src.Name(), err)
	}
	if c, ok := m.view.Claim(); ok && otherSource(c, id) {
		m.replaced(otherSourceText(m.src.Name(), c, id))
	}
	r, _ := m.Replaced()
	return r != nil, nil
}

func otherSource(c offsetsync.Claim, id string) bool {
	return c.SourceCluster != "" && c.SourceCluster != id
}

func otherSourceText(name string, c offsetsync.Claim, id string) string {
	return fmt.Sprintf("the link copied from cluster id %s, but %s is cluster id %s now", c.SourceCluster, name, id)
}

func rewoundText(l *lane, f fork, top int64) string {
	return fmt.Sprintf("%s/%d was copied up to source offset %d of leader epoch %d, but the source has leader epoch %d and ends that one at %d: "+
		"it was restored from an older copy", l.id.Topic, l.id.Partition, top, f.last, f.leader, f.end)
}

// showHeld makes lanes that an earlier run copied visible while the link is stopped and nobody offers any.
func (m *Manager) showHeld() {
	for _, id := range m.view.Lanes() {
		st, _ := m.view.Lane(id)
		if l, found := m.take(Assignment{Lane: id, Identity: st.Opening.Identity}); l != nil && !found {
			l.mu.Lock()
			l.cursor = st.Cursor
			l.mu.Unlock()
			m.holdReplaced(l)
		}
	}
}

// rewindCheck looks whether the source still has what the given lanes copied, before anything is written for them, and
// returns them; none when the source was replaced. A source that does not answer says nothing: whoever reads from it next
// looks again.
func (m *Manager) rewindCheck(ctx context.Context, es []*entry) []*entry {
	asks, by := make(map[kafka.Part]int32), make(map[kafka.Part]*entry)
	for _, e := range es {
		if c := e.state.Cursor; e.found && c.SrcEpoch >= 0 && e.state.Opening.Identity.Src == e.ident.Src && !m.accepted(e.state.Opening.Term.N) {
			p := e.lane.srcPart()
			asks[p], by[p] = c.SrcEpoch, e
		}
	}
	if len(asks) > 0 {
		ask, cancel := context.WithTimeout(ctx, rewindPatience)
		defer cancel()
		for p, a := range m.src.EpochEnds(ask, asks) {
			c := by[p].state.Cursor
			f := fork{split: a.Epoch != c.SrcEpoch || a.End < c.Src, leader: a.Leader, last: c.SrcEpoch, end: a.End}
			if a.Err == nil && f.rewound() {
				m.replaced(rewoundText(by[p].lane, f, c.Src))
				break
			}
		}
	}
	if r, _ := m.Replaced(); r != nil {
		for _, e := range es {
			m.holdReplaced(e.lane)
		}
		return nil
	}
	return es
}

// rewindPatience bounds that look.
const rewindPatience = 5 * time.Second

// accepted reports whether an operator accepted the source as it is after lanes of this term were copied: a source log that
// is behind them is then one that was truncated.
func (m *Manager) accepted(term uint64) bool {
	c, ok := m.view.Claim()
	return ok && term <= c.AcceptedTerm
}

// acceptSource goes on with a source that was replaced on purpose: a claim that follows the present one says so for ever.
// Lanes whose topic has the same id go on, or are cut where the source's log ends; others show that their topic is another
// one.
func (m *Manager) acceptSource(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	step := model.OrderStep{Subject: m.opt.Link, State: string(model.StateStopped) + ": " + string(model.ReasonSourceReplaced)}
	r, _ := m.Replaced()
	if r == nil {
		step.State, step.Refused = "not stopped", "the link is not stopped as source_replaced"
		return []model.OrderStep{step}, nil
	}
	id, err := m.src.ID(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", m.src.Name(), err)
	}
	step.Does = fmt.Sprintf("goes on with cluster id %s as it is now: topics of the same id go on, where the source lost records their "+
		"copies stay on the target and are listed, and topics of another id wait for lockstep topics accept", id)
	if o.DryRun {
		return []model.OrderStep{step}, nil
	}
	if err := m.claimSource(ctx, id, o); err != nil {
		step.Error = err.Error()
		return []model.OrderStep{step}, nil
	}
	step.Done = true
	m.setReplaced(nil)
	m.enterAgain()
	return []model.OrderStep{step}, nil
}

// claimSource makes durable that the link copies from this cluster, as it is now.
func (m *Manager) claimSource(ctx context.Context, id string, o model.Order) error {
	held, ok := m.view.Claim()
	if !ok || held.Owner != m.opt.Owner {
		return errors.New("the link is not ours any more")
	}
	c := held
	c.ID, c.Prev, c.At, c.Released = uuid.NewString(), held.ID, m.now(), false
	c.SourceCluster, c.AcceptedTerm = id, m.terms.newest().N
	if err := m.store.PutClaim(ctx, c); err != nil {
		return fmt.Errorf("claim the new source: %w", err)
	}
	if err := m.view.Barrier(ctx); err != nil {
		return fmt.Errorf("read the claim back: %w", err)
	}
	if now, _ := m.view.Claim(); now.ID != c.ID {
		return errors.New("another claim came first")
	}
	m.log.Info("goes on with a replaced source", "source_id", id, "by", o.By, "reason", o.Reason)
	return nil
}

// enterAgain opens the lanes that the replaced source had stopped. Those that nobody has offered yet are forgotten: they
// were only shown.
func (m *Manager) enterAgain() {
	var back []*lane
	m.mu.Lock()
	for id, l := range m.lanes {
		switch held, offered := l.heldByReplacement(); {
		case held && offered:
			back = append(back, l)
		case held:
			delete(m.lanes, id)
		}
	}
	m.mu.Unlock()
	m.again(model.ReasonSourceReplaced, back...)
}

func (l *lane) heldByReplacement() (held, offered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == model.StateStopped && l.reason == model.ReasonSourceReplaced, l.wanted
}
