package replicator

import (
	"context"
	"time"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

// seal ends the older terms of lanes by markers of t, and makes durable what is known. Every lane is sealed or not, never
// assumed.
func (m *Manager) seal(ctx context.Context, t model.Term, es []*entry) (map[kafka.Part]term.Outcome, error) {
	endings := make([]ending, len(es))
	for i, e := range es {
		endings[i] = newEnding(e.lane.id, e.part, e.state, t, nil)
	}
	if err := intend(ctx, m.store, t, endings, m.sealWay(), m.now()); err != nil {
		return nil, err
	}
	failpoint.Pass("before_seal")
	out, way := endAll(ctx, m.sealer, t, endings)
	m.way.Store(way)
	return out, confirm(ctx, m.store, t, endings, out, way, m.now())
}

// ending is a lane whose older terms are to end.
type ending struct {
	lane   model.Lane
	target term.Target
	// under are terms of one producer id each, all of which somebody may still open the lane in: a marker of one id ends
	// nothing of another. The first is the one that the lane was last opened in.
	under []model.Term
}

// newEnding works out under which producer ids a lane has to be sealed by a marker of t: the one that it was last opened
// in, t's own, since somebody else may have taken a term of that one and not have written here yet, and those of the known
// terms that are not older than the lane's. In an older one nobody can open it any more: of two openings behind the same
// one the first counts, and each is in a term that is not older than its predecessor's.
func newEnding(id model.Lane, p kafka.Part, st offsetsync.LaneState, t model.Term, known []model.Term) ending {
	last := st.Opening.Term
	e := ending{lane: id, target: term.Target{Part: p, From: st.Cursor.Dst, Ends: last}, under: []model.Term{last}}
	has := map[int64]bool{t.PID: true}
	if last.N > 0 && last.PID != t.PID {
		has[last.PID] = true
		e.under = append(e.under, model.Term{}) // which is one of t's id
	}
	for _, k := range known {
		if k.N >= last.N && !has[k.PID] {
			has[k.PID] = true
			e.under = append(e.under, k)
		}
	}
	return e
}

// endAll seals lanes under all their producer ids, one id of each at a time. A lane that was refused under one of them is
// not sealed. What the leader knew is that of the first, and the marker is the last one: nothing older stands behind it.
func endAll(ctx context.Context, s sealer, t model.Term, es []ending) (map[kafka.Part]term.Outcome, term.Way) {
	out, way := s.Seal(ctx, t, nextTargets(es, 0, nil))
	for i := 1; ; i++ {
		targets := nextTargets(es, i, out)
		if len(targets) == 0 {
			return out, way
		}
		more, w := s.Seal(ctx, t, targets)
		way = w
		for p, o := range more {
			o.Was = out[p].Was
			out[p] = o
		}
	}
}

// nextTargets returns what is to be sealed under its i-th producer id, of the lanes that are sealed so far.
func nextTargets(es []ending, i int, out map[kafka.Part]term.Outcome) (targets []term.Target) {
	for _, e := range es {
		if i < len(e.under) && (i == 0 || out[e.target.Part].Sealed()) {
			e.target.Ends = e.under[i]
			targets = append(targets, e.target)
		}
	}
	return targets
}

// intend stores that lanes are about to be sealed.
func intend(ctx context.Context, store *offsetsync.Store, t model.Term, es []ending, way term.Way, at time.Time) error {
	seals := make([]offsetsync.Seal, len(es))
	for i, e := range es {
		seals[i] = offsetsync.Seal{Lane: e.lane, Term: t, DstTopic: e.target.Topic, Marker: -1, LeaderEpoch: -1, Way: string(way), At: at}
	}
	return store.PutSeal(ctx, seals...)
}

// confirm stores the seals whose markers were seen.
func confirm(ctx context.Context, store *offsetsync.Store, t model.Term, es []ending, out map[kafka.Part]term.Outcome, way term.Way, at time.Time) error {
	var seals []offsetsync.Seal
	for _, e := range es {
		if o := out[e.target.Part]; o.Sealed() {
			seals = append(seals, offsetsync.Seal{Lane: e.lane, Term: t, DstTopic: e.target.Topic, Confirmed: true,
				Marker: o.Marker, LeaderEpoch: o.LeaderEpoch, Way: string(way), At: at})
		}
	}
	return store.PutSeal(ctx, seals...)
}

// sealWay is how this link seals, as far as that is known.
func (m *Manager) sealWay() term.Way {
	w, _ := m.way.Load().(term.Way)
	return w
}

// storedWay is how this link seals, as its newest confirmed seal says: the ways must not be mixed. It goes through all
// lanes, and so is asked once.
func (m *Manager) storedWay() term.Way {
	newest, way := uint64(0), term.WayUnknown
	for _, id := range m.view.Lanes() {
		for _, s := range m.view.Seals(id) {
			if s.Confirmed && s.Term.N >= newest {
				newest, way = s.Term.N, term.Way(s.Way)
			}
		}
	}
	return way
}
