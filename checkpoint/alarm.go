package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// AlarmKind is what an alarm is about.
type AlarmKind string

// The kinds of alarms of a group, all about the source. None is raised by one look: each must have held for a while, and
// ends only after it has been clearly over for as long.
const (
	// AlarmLag: the group is far behind all the time, not only between two commits.
	AlarmLag AlarmKind = "lag"
	// AlarmRising: its least lag of a minute rose from minute to minute, and was never 0.
	AlarmRising AlarmKind = "rising"
	// AlarmStalled: a position stands still while records come in behind it.
	AlarmStalled AlarmKind = "stalled"
	// AlarmSkew: one partition is far behind the others of its topic.
	AlarmSkew AlarmKind = "skew"
)

// AlarmKinds returns all kinds.
func AlarmKinds() []AlarmKind { return []AlarmKind{AlarmLag, AlarmRising, AlarmStalled, AlarmSkew} }

// Severity says how bad an alarm is.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// When alarms begin. Critical is ten times the figure, except where it says otherwise.
const (
	// alarmPeriod is how long lag and skew must have lasted, and what rising counts in.
	alarmPeriod = time.Minute
	// alarmLag records are a warning, and one part in alarmShare of what the group could read.
	alarmLag, alarmShare = 10_000, 20
	// alarmFloor is how many records are too few for shares and rises to mean anything.
	alarmFloor = 50
	// risesWarn and risesCritical are rises in a row.
	risesWarn, risesCritical = 3, 5
	// stalledWarn and stalledCritical are how long a position stands still.
	stalledWarn, stalledCritical = 5 * time.Minute, 15 * time.Minute
	// skewFactor times the median of the others, and skewFloor records, are a warning.
	skewFactor, skewFloor = 10, 1000
	// alarmOver is what share of its figure ends an alarm.
	alarmOver = 0.8
)

// Alarm is something about a group that wants attention.
type Alarm struct {
	Group    string
	Kind     AlarmKind
	Severity Severity
	Topic    string // where it is about one
	Detail   string // with figures
	Since    time.Time
}

// Alarms judges groups by what passes show of them. It concludes nothing from what is not known: an alarm then neither
// begins nor ends. Its clock is the passes' own.
type Alarms struct {
	mu     sync.Mutex // guards the fields below
	groups map[string]*watched
	pass   uint64
	at     time.Time // of the newest pass
}

// NewAlarms returns alarms that no pass has told anything yet.
func NewAlarms() *Alarms { return &Alarms{groups: make(map[string]*watched)} }

// Passed implements Listener.
func (a *Alarms) Passed(p Pass) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.at.IsZero() && p.At.Sub(a.at) > 2*alarmPeriod {
		for _, w := range a.groups {
			w.missed()
		}
	}
	a.at = p.At
	a.pass++
	for rows := range eachGroup(p.Rows) {
		a.look(rows, p)
	}
	for name, w := range a.groups {
		if w.pass != a.pass {
			delete(a.groups, name)
		}
	}
}

// look judges one group by its rows.
func (a *Alarms) look(rows []Row, p Pass) {
	name := rows[0].Group
	w := a.groups[name]
	stand := standOf(rows)
	if _, stale := p.Stale[name]; stale {
		stand = min(stand, standsUnknown)
	}
	switch stand {
	case standsNowhere:
		return
	case standsUnknown:
		if w != nil {
			w.pass = a.pass
		}
		return
	case standsKnown:
	}
	if w == nil {
		w = &watched{}
		a.groups[name] = w
	}
	w.pass = a.pass
	w.look(rows, p)
}

// stands is what rows tell of a group.
type stands int

const (
	standsNowhere stands = iota // nothing to watch: vanished, excluded, or at work on the target
	standsUnknown               // its positions could not be read: nothing is concluded
	standsKnown
)

func standOf(rows []Row) stands {
	s := standsNowhere
	for i := range rows {
		switch r := &rows[i]; {
		case r.State == StateExcluded, r.State == StateUnsupportedType, r.State == StateActiveOnTarget:
			return standsNowhere
		case r.State == StateSourceUnreadable:
			s = max(s, standsUnknown)
		case r.Topic != "" && r.Source >= 0:
			s = standsKnown
		}
	}
	return s
}

// Of returns a group's alarms, by kind.
func (a *Alarms) Of(group string) []Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.groups[group]; w != nil {
		return w.raised(group)
	}
	return nil
}

// All returns the alarms of all groups, the worst first, then by how long they last.
func (a *Alarms) All() []Alarm {
	a.mu.Lock()
	var all []Alarm
	for name, w := range a.groups {
		all = append(all, w.raised(name)...)
	}
	a.mu.Unlock()
	slices.SortFunc(all, func(x, y Alarm) int {
		return cmp.Or(cmp.Compare(x.Severity, y.Severity), // "critical" sorts before "warning"
			x.Since.Compare(y.Since), cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind))
	})
	return all
}

// watched is what is remembered of a group: as much as it has positions.
type watched struct {
	pass      uint64
	positions []position // in the rows' order
	spare     []position // for the next look
	trend     trend

	lag, rising, stalled, skew alarm
}

// position is one position as it was seen.
type position struct {
	key      Key
	source   int64
	since    time.Time // when it was first seen there; as long as nothing is behind it, now
	readable int64     // what could be read then, -1 not known
	end      int64     // what can be read now, -1 not known
	log      int64     // records that can be read at all
	lag      int64     // -1 not known
}

// alarm is one kind of a group's alarm.
type alarm struct {
	warn, critical gate
	topic, detail  string
}

// raised returns the alarms that are up.
func (w *watched) raised(group string) (out []Alarm) {
	for i, a := range []*alarm{&w.lag, &w.rising, &w.stalled, &w.skew} { // as AlarmKinds
		if !a.warn.up {
			continue
		}
		s := Warning
		if a.critical.up {
			s = Critical
		}
		out = append(out, Alarm{Group: group, Kind: AlarmKinds()[i], Severity: s, Topic: a.topic, Detail: a.detail, Since: a.warn.since})
	}
	return out
}

// gate holds a condition back until it has lasted, and keeps it until it has been over for as long.
type gate struct {
	up    bool
	since time.Time // when the condition began to hold
	over  time.Time // when it began to be over
}

// step takes what one look showed: bad, good, or neither of the two.
func (g *gate) step(now time.Time, bad, good bool, begin, end time.Duration) {
	switch {
	case bad:
		g.over = time.Time{}
		if g.since.IsZero() {
			g.since = now
		}
		g.up = g.up || now.Sub(g.since) >= begin
	case !g.up:
		g.since = time.Time{}
	case !good:
		g.over = time.Time{}
	case g.over.IsZero():
		g.over = now
	}
	if g.up && !g.over.IsZero() && now.Sub(g.over) >= end {
		*g = gate{}
	}
}

// missed forgets what was about to begin or to end: nobody looked in between.
func (w *watched) missed() {
	w.trend = trend{}
	for _, a := range []*alarm{&w.lag, &w.rising, &w.stalled, &w.skew} {
		for _, g := range []*gate{&a.warn, &a.critical} {
			g.over = time.Time{}
			if !g.up {
				g.since = time.Time{}
			}
		}
	}
}

// look takes one pass's rows of the group.
func (w *watched) look(rows []Row, p Pass) {
	w.follow(rows, p)
	s := sum(w.positions)
	w.judgeLag(s, p.At)
	w.judgeTrend(s, p.At)
	w.judgeStalled(p.At)
	w.judgeSkew(p.At)
}

// follow brings the positions up to date. Rows come in the same order in every pass, so the former one of a row is mostly
// at the same place.
func (w *watched) follow(rows []Row, p Pass) {
	was, now := w.positions, slices.Grow(w.spare[:0], len(rows))
	for i := range rows {
		r := &rows[i]
		l, copied := p.Lanes[r.Key]
		if r.Topic == "" || !copied {
			continue
		}
		pos := position{key: r.Key, source: r.Source, since: p.At, readable: l.Readable, end: l.Readable, log: l.Readable - max(0, l.SrcStart), lag: -1}
		if lag, known := behind(r, &l); known {
			pos.lag = lag
		}
		old, ok := find(was, r.Key, len(now))
		if ok && pos.lag != 0 && (old.source == r.Source || r.State == StateSourceUnreadable) {
			pos.source, pos.since, pos.readable = old.source, old.since, old.readable
			if old.readable < 0 {
				pos.readable = l.Readable
			}
		}
		now = append(now, pos)
	}
	w.positions, w.spare = now, was
}

// find returns the position of a key, which is likely at i.
func find(ps []position, k Key, i int) (position, bool) {
	if i < len(ps) && ps[i].key == k {
		return ps[i], true
	}
	j, ok := slices.BinarySearchFunc(ps, k, func(p position, k Key) int { return p.key.compare(k) })
	if !ok {
		return position{}, false
	}
	return ps[j], true
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Topic, o.Topic), cmp.Compare(k.Partition, o.Partition))
}

// total is a group's lag over its positions.
type total struct {
	lag, readable int64
	partial       bool // of some position it is not known
}

func sum(ps []position) (t total) {
	for i := range ps {
		if ps[i].lag < 0 {
			t.partial = true
			continue
		}
		t.lag += ps[i].lag
		t.readable += ps[i].log
	}
	return t
}

// share returns the lag as a share of what could be read.
func (t total) share() float64 { return float64(t.lag) / float64(max(1, t.readable)) }

func (w *watched) judgeLag(t total, now time.Time) {
	level := float64(t.lag) / alarmLag
	if t.lag > alarmFloor {
		level = max(level, alarmShare*t.share())
	}
	w.lag.level(now, level, !t.partial)
	if w.lag.warn.up {
		w.lag.detail = fmt.Sprintf("%d records behind, %.1f %% of %d that can be read", t.lag, 100*t.share(), t.readable)
	}
}

// level judges a figure as a multiple of what is a warning. Less than all of it may raise an alarm, but ends none.
func (a *alarm) level(now time.Time, level float64, all bool) {
	a.warn.step(now, level > 1, all && level < alarmOver, alarmPeriod, alarmPeriod)
	a.critical.step(now, level > 10, all && level < 10*alarmOver, alarmPeriod, alarmPeriod)
}

// trend is how a group's lag moves from period to period. What counts is the least lag of each: between two commits lag
// rises and falls anyway.
type trend struct {
	began  time.Time // of the present period
	low    int64     // the least lag in it
	holes  bool      // the lag was not known all the time
	before int64     // the least of the one before
	judged bool      // there is one before that counts: its lag was known, and never 0
	rises  int       // in a row
}

func (w *watched) judgeTrend(t total, now time.Time) {
	tr := &w.trend
	if tr.began.IsZero() {
		*tr = trend{began: now, low: t.lag, holes: t.partial}
		return
	}
	tr.holes = tr.holes || t.partial
	if now.Sub(tr.began) < alarmPeriod {
		tr.low = min(tr.low, t.lag)
		return
	}
	tr.close()
	switch {
	case tr.holes:
	case tr.low == 0:
		w.rising = alarm{} // it caught up
	case tr.judged:
		bad := tr.rises >= risesWarn && tr.low > alarmFloor
		w.rising.warn.step(now, bad, tr.rises == 0, 0, alarmPeriod)
		w.rising.critical.step(now, bad && tr.rises >= risesCritical, tr.rises == 0, 0, alarmPeriod)
	}
	if tr.rises > 0 {
		w.rising.detail = fmt.Sprintf("its least lag of a minute rose %d times in a row, to %d records", tr.rises, tr.low)
	}
	tr.began, tr.before, tr.judged = now, tr.low, !tr.holes && tr.low > 0
	tr.low, tr.holes = t.lag, t.partial
}

// close counts a period that ends.
func (tr *trend) close() {
	switch {
	case tr.holes || tr.judged && tr.low <= tr.before:
		tr.rises = 0
	case tr.judged:
		tr.rises++
	}
}

// judgeStalled looks for positions that stand still while records come in behind them.
func (w *watched) judgeStalled(now time.Time) {
	n, known, worst := 0, true, position{}
	for i := range w.positions {
		pos := &w.positions[i]
		known = known && pos.lag >= 0
		if pos.lag <= 0 || now.Sub(pos.since) < stalledWarn || pos.end <= pos.readable {
			continue
		}
		n++
		if n == 1 || pos.since.Before(worst.since) {
			worst = *pos
		}
	}
	still := now.Sub(worst.since)
	w.stalled.warn.step(now, n > 0, known, 0, alarmPeriod)
	w.stalled.critical.step(now, n > 0 && still >= stalledCritical, known, 0, alarmPeriod)
	if n > 0 {
		w.stalled.topic = worst.key.Topic
		w.stalled.detail = fmt.Sprintf("%s stands at %d for %s, while %d records came in; %d behind (%s)", worst.key,
			worst.source, still.Truncate(time.Second), worst.end-worst.readable, worst.lag, such(n))
	}
}

// judgeSkew looks for the partition that is farthest behind the others of its topic.
func (w *watched) judgeSkew(now time.Time) {
	level, all := 0.0, true
	for ps := w.positions; len(ps) > 0; {
		n := 1
		for n < len(ps) && ps[n].key.Topic == ps[0].key.Topic {
			n++
		}
		l, detail, known := skewOf(ps[:n])
		if all = all && known; l > level {
			level, w.skew.topic, w.skew.detail = l, ps[0].key.Topic, detail
		}
		ps = ps[n:]
	}
	w.skew.level(now, level, all)
}

// skewOf returns how far a topic's worst partition is behind the others, as a multiple of what is a warning.
func skewOf(ps []position) (level float64, detail string, known bool) {
	var worst position
	known = true
	for i := range ps {
		known = known && ps[i].lag >= 0
		if ps[i].lag > worst.lag {
			worst = ps[i]
		}
	}
	if len(ps) < 2 || worst.lag <= alarmOver*skewFloor {
		return 0, "", known
	}
	var others []int64
	for i := range ps {
		if ps[i].lag >= 0 && ps[i].key != worst.key {
			others = append(others, ps[i].lag)
		}
	}
	if len(others) == 0 {
		return 0, "", false
	}
	slices.Sort(others)
	median := others[len(others)/2]
	return float64(worst.lag) / float64(max(skewFloor, skewFactor*median)),
		fmt.Sprintf("%s is %d records behind, the median of the topic's other partitions is %d", worst.key, worst.lag, median), known
}

func such(n int) string {
	if n == 1 {
		return "1 such position"
	}
	return fmt.Sprintf("%d such positions", n)
}
