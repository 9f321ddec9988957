package replicator

import (
	"context"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

// seal ends the older terms of lanes by markers of t, and makes durable what is known: first that it is intended, then
// where each marker stands. Every lane is sealed or not, never assumed.
func (m *Manager) seal(ctx context.Context, t model.Term, es []*entry) (map[kafka.Part]term.Outcome, error) {
	targets := make([]term.Target, len(es))
	seals := make([]offsetsync.Seal, len(es))
	for i, e := range es {
		targets[i] = term.Target{Part: e.part, From: e.state.Cursor.Dst, Ends: e.state.Opening.Term}
		seals[i] = offsetsync.Seal{Lane: e.lane.id, Term: t, DstTopic: e.ident.DstTopic, Marker: -1, LeaderEpoch: -1,
			Way: string(m.sealWay()), At: m.now()}
	}
	if err := m.store.PutSeal(ctx, seals...); err != nil {
		return nil, err
	}
	failpoint.Pass("before_seal")
	out, way := m.sealer.Seal(ctx, t, targets)
	if again := underOwnID(t, targets, out); len(again) > 0 {
		more, _ := m.sealer.Seal(ctx, t, again)
		for p, o := range more {
			o.Was = out[p].Was
			out[p] = o
		}
	}
	m.way.Store(way)
	return out, m.store.PutSeal(ctx, confirmed(seals, es, out, way)...)
}

// underOwnID returns what was sealed under a forgotten producer id, to be sealed under the term's own as well: somebody
// else may have taken a term of the new id, too, and not have written here yet.
func underOwnID(t model.Term, targets []term.Target, out map[kafka.Part]term.Outcome) (again []term.Target) {
	for _, x := range targets {
		if x.Ends.N > 0 && x.Ends.PID != t.PID && out[x.Part].Sealed() {
			again = append(again, term.Target{Part: x.Part, From: x.From})
		}
	}
	return again
}

// confirmed returns the seals whose markers were seen.
func confirmed(seals []offsetsync.Seal, es []*entry, out map[kafka.Part]term.Outcome, way term.Way) (done []offsetsync.Seal) {
	for i, e := range es {
		o := out[e.part]
		if !o.Sealed() {
			continue
		}
		s := seals[i]
		s.Confirmed, s.Marker, s.LeaderEpoch, s.Way = true, o.Marker, o.LeaderEpoch, string(way)
		done = append(done, s)
	}
	return done
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
