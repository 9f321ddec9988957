package checkpoint

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"lockstep/offsetsync"
)

// memory is what a Syncer knows from one pass to the next. Whoever has the turn may use it.
type memory struct {
	groups          map[string]*known
	names           []string // of groups, sorted; nil when they changed
	rows            []Row    // of all groups, in order; nil when one changed
	source          map[string]Group
	target          map[string]Group // listed: without positions
	lanes           map[Key]Lane
	moved           map[Key]int64    // end of each lane's map on the source
	starts          map[Key]logStart // of the target's logs
	settings        Settings
	writes          string // why nothing was written
	round           uint64
	at              time.Time // of the last successful look at the source
	retention       time.Duration
	asked           time.Time // when the target's retention was asked for
	passes, history condition
	changes         changes // since they were told
}

// known is one group's rows, as they were decided last.
type known struct {
	rows  []Row
	state State
	// open says that the next pass has to decide again, whatever has changed.
	open bool
	// ahead are positions behind what was copied: they are decided again when more has been.
	ahead []Key
	// stale is when the positions were read, if that was not by the newest pass.
	stale time.Time
}

func newMemory() memory {
	return memory{groups: make(map[string]*known), starts: make(map[Key]logStart)}
}

// put remembers what was decided for a group.
func (m *memory) put(group string, rows []Row) {
	k := m.groups[group]
	if k == nil {
		k = &known{}
		m.groups[group] = k
		m.names = nil
	}
	state, _ := worst(rows)
	m.changes.note(group, k.state, state)
	k.state, k.stale = state, time.Time{}
	k.open, k.ahead = false, nil
	for i := range rows {
		k.open = k.open || unsettled(rows[i].State)
		if rows[i].Kind == offsetsync.Ahead || rows[i].Base.Ahead {
			k.ahead = append(k.ahead, rows[i].Key)
		}
	}
	if !slices.EqualFunc(k.rows, rows, sameRow) {
		m.rows = nil
	}
	k.rows = rows // also when they look the same: the bases in them may be newer
}

// excluded reports whether the group is only shown as left out.
func (k *known) excluded() bool { return len(k.rows) == 1 && k.rows[0].State == StateExcluded }

// drop forgets a group.
func (m *memory) drop(group string) {
	if _, there := m.groups[group]; there {
		delete(m.groups, group)
		m.names, m.rows = nil, nil
	}
}

// unsettled says that a state is expected to change without anything that a pass would notice.
func unsettled(s State) bool {
	switch s {
	case StatePending, StateUnstable, StateNotYetCopied, StateTargetUnreadable, StateSourceUnreadable:
		return true
	default:
		return false
	}
}

// sameRow reports whether two rows show the same.
func sameRow(a, b Row) bool {
	return a.Group == b.Group && a.DstGroup == b.DstGroup && a.Key == b.Key && a.DstTopic == b.DstTopic && a.Source == b.Source &&
		a.Translated == b.Translated && a.Kind == b.Kind && a.Off == b.Off && a.Target == b.Target && a.Metadata == b.Metadata &&
		a.State == b.State && a.Detail == b.Detail && a.Again == b.Again && a.Write == b.Write && a.Backwards == b.Backwards
}

// all returns the rows of all groups by group, topic and partition. The result is never changed.
func (m *memory) all() []Row {
	if m.rows != nil {
		return m.rows
	}
	if m.names == nil {
		m.names = slices.Sorted(maps.Keys(m.groups))
	}
	n := 0
	for _, k := range m.groups {
		n += len(k.rows)
	}
	m.rows = make([]Row, 0, n)
	for _, name := range m.names {
		m.rows = append(m.rows, m.groups[name].rows...)
	}
	return m.rows
}

// stale tells when the positions of groups were read that the newest pass could not read.
func (m *memory) stale() map[string]time.Time {
	out := make(map[string]time.Time)
	for name, k := range m.groups {
		if !k.stale.IsZero() {
			out[name] = k.stale
		}
	}
	return out
}

// lookAtEach is within which time every group is decided anew, also if nothing about it seems to have changed: what
// others do on the target is seen by then.
const lookAtEach = 30 * time.Second

// share reports whether it is a group's turn to be decided anew in this round.
func (m *memory) share(group string) bool {
	rounds := uint64(max(1, lookAtEach/max(m.settings.Interval, time.Millisecond)))
	h := fnv.New64a()
	_, _ = h.Write([]byte(group)) // never fails
	return h.Sum64()%rounds == m.round%rounds
}
