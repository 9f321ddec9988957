package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// attempt is what one pass sees and decides.
type attempt struct {
	s        *Syncer
	m        *memory
	settings Settings
	hold     Hold
	began    time.Time
	at       time.Time // when the source had been read
	chosen   *chosen
	source   Picture
	listed   Picture // of the target, without positions
	lanes    map[Key]Lane
	accept   map[string]bool
	unread   map[string]error // groups of the source that are there, or may be, and could not be read
}

// pass looks at everything, decides about what changed and writes it.
func (s *Syncer) pass(ctx context.Context) Pass {
	a := s.begin()
	if a.hold.Source != "" {
		return a.failed(&sideError{StateLaneHeld, fmt.Errorf("the source was replaced: %s", a.hold.Source)})
	}
	if err := a.see(ctx, a.chosen.want); err != nil {
		return a.failed(err)
	}
	a.keepUnread()
	names := a.due()
	rows, err := a.decide(ctx, names)
	if err != nil {
		return a.failed(err)
	}
	rows, err = a.write(ctx, rows)
	a.remember(names, rows)
	p := a.result()
	p.Err = err
	return p
}

func (s *Syncer) begin() *attempt {
	a := &attempt{s: s, m: &s.state, settings: s.current(), hold: s.opt.Hold(), began: s.now()}
	a.chosen = newChosen(a.settings.Filter)
	return a
}

// see looks at both clusters and at what was copied. Nothing is kept of a look that failed.
func (a *attempt) see(ctx context.Context, want func(group string) bool) error {
	if err := a.readState(ctx); err != nil {
		return err
	}
	g, both := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		a.source, err = a.s.opt.Sides.Source(both, want)
		a.at = a.s.now()
		if err == nil {
			err = a.s.opt.SameSource(both)
		}
		return sideFault(StateSourceUnreadable, "read the source's groups", err)
	})
	g.Go(func() (err error) {
		a.listed, err = a.s.opt.Sides.Listed(both)
		return sideFault(StateTargetUnreadable, "list the target's groups", err)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	// After the source: what was copied meanwhile is translated and not ahead.
	a.lanes = a.s.opt.Lanes.Lanes()
	a.addUnopened()
	a.knownStarts()
	a.learnRetention(ctx)
	return nil
}

// stateWait is for how long a pass waits for the state topic before it is shown that it does not answer.
const stateWait = 20 * time.Second

var errStateWait = errors.New("the state topic has not answered in time")

// readState returns when everything in the state topic was read.
func (a *attempt) readState(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stateWait, errStateWait)
	defer cancel()
	return sideFault(StateTargetUnreadable, "read the state topic", a.s.opt.Barrier(ctx))
}

// sideFault says which side did not answer; a missing permission is told as such.
func sideFault(state State, what string, err error) error {
	if err == nil {
		return nil
	}
	if _, reason := kafka.Classify(err); reason == model.ReasonNotAuthorized {
		state = StateNotAuthorized
	}
	return &sideError{state, fmt.Errorf("%s: %w", what, err)}
}

// addUnopened adds lanes for topics that the link copies and that have none yet: groups in them are not without a topic,
// they wait.
func (a *attempt) addUnopened() {
	if a.s.opt.Selects == nil {
		return
	}
	type answer struct {
		dst string
		ok  bool
	}
	asked := make(map[string]answer)
	for _, g := range a.source.Groups {
		for k := range g.Offsets {
			if _, there := a.lanes[k]; there {
				continue
			}
			is, there := asked[k.Topic]
			if !there {
				is.dst, is.ok = a.s.opt.Selects(k.Topic)
				asked[k.Topic] = is
			}
			if is.ok {
				a.lanes[k] = Lane{DstTopic: is.dst, SrcStart: -1, SrcEnd: -1, DstStart: -1, DstEnd: -1, Readable: -1}
			}
		}
	}
}

// refreshEnds asks for the ends of partitions that a group which is decided about seems to be beyond: what a lane saw last
// may be older than the group's position, a paused lane sees nothing, and one that was just opened has not looked yet.
func (a *attempt) refreshEnds(ctx context.Context, names []string) {
	beyond := make(map[Key]bool)
	for _, name := range names {
		for k, c := range a.source.Groups[name].Offsets {
			if lane, ok := a.lanes[k]; ok && lane.Map != nil && c.Offset > lane.SrcEnd {
				beyond[k] = true
			}
		}
	}
	if len(beyond) == 0 {
		return
	}
	for k, end := range a.s.opt.Sides.Ends(ctx, slices.Collect(maps.Keys(beyond))) {
		lane := a.lanes[k]
		lane.SrcEnd = max(lane.SrcEnd, end)
		a.lanes[k] = lane
	}
}

// logStart is a target log's start, and when it was asked for. Another opening may be over another log: a topic that was
// made anew begins below where the old one did.
type logStart struct {
	offset  int64
	at      time.Time
	opening uint64
}

// knownStarts fills in where the target's logs began when they were last asked.
func (a *attempt) knownStarts() {
	for k, lane := range a.lanes {
		if s, ok := a.m.starts[k]; ok && lane.DstStart < 0 && s.opening == lane.Opening {
			lane.DstStart = s.offset
			a.lanes[k] = lane
		}
	}
}

// refreshStarts asks where the target's logs begin that groups are about to be written into: what retention has deleted
// there is no place to go on at.
func (a *attempt) refreshStarts(ctx context.Context, of Picture) {
	due := make(map[Key]bool)
	for _, g := range of.Groups {
		for k := range g.Offsets {
			lane, ok := a.lanes[k]
			if s := a.m.starts[k]; ok && lane.Map != nil && (s.opening != lane.Opening || a.began.Sub(s.at) >= lookAtEach) {
				due[k] = true
			}
		}
	}
	if len(due) == 0 {
		return
	}
	parts := make(map[Key]Key, len(due)) // by the target's names
	for k := range due {
		parts[Key{a.lanes[k].DstTopic, k.Partition}] = k
	}
	for dst, offset := range a.s.opt.Sides.Starts(ctx, slices.Collect(maps.Keys(parts))) {
		k := parts[dst]
		lane := a.lanes[k]
		a.m.starts[k] = logStart{offset, a.began, lane.Opening}
		lane.DstStart = offset
		a.lanes[k] = lane
	}
}

// How long Kafka keeps the offsets of groups without members unless it was told otherwise, and how often we ask.
const (
	usualRetention = 7 * 24 * time.Hour
	askRetention   = time.Hour
)

func (a *attempt) learnRetention(ctx context.Context) {
	if !a.m.asked.IsZero() && a.began.Sub(a.m.asked) < askRetention {
		return
	}
	a.m.asked = a.began
	d, err := a.s.opt.Sides.Retention(ctx)
	if err != nil || d <= 0 {
		a.s.log.Debug("the target does not tell for how long it keeps offsets", "error", err)
		d = cmp.Or(a.m.retention, usualRetention) // as it was before, if it ever told
	}
	a.m.retention = d
}

// keepUnread lets groups that are there and could not be read be as they were: that is not the same as having vanished.
// Of a source that did not list all of its groups, the missing ones may be there.
func (a *attempt) keepUnread() {
	missing := make(map[string]error)
	maps.Copy(missing, a.source.Failed)
	if a.source.Partial != nil {
		for name := range a.m.groups {
			if _, there := a.source.Groups[name]; !there && !a.m.groups[name].excluded() {
				if missing[name] == nil {
					missing[name] = a.source.Partial
				}
			}
		}
	}
	a.unread = missing
}

// due returns the groups that have to be decided about: whose source, target or lanes changed, those that wait for
// something, and a share of the others.
func (a *attempt) due() []string {
	all := a.m.at.IsZero() || a.changedSettings()
	a.m.settings, a.m.writes = a.settings, a.hold.Writes
	a.m.round++
	changed, longer := a.changedLanes()
	var out []string
	for _, name := range a.names() {
		if _, unread := a.unread[name]; unread && a.m.groups[name] != nil {
			continue
		}
		if all || a.isDue(name, changed, longer) {
			out = append(out, name)
		}
	}
	return out
}

func (a *attempt) changedSettings() bool {
	old := a.m.settings
	return old.Filter != a.settings.Filter || old.Sync != a.settings.Sync || old.MaxRewind != a.settings.MaxRewind ||
		old.RewindHold != a.settings.RewindHold || a.m.writes != a.hold.Writes
}

// names returns all groups that there are, or were.
func (a *attempt) names() []string {
	set := make(map[string]struct{}, len(a.source.Groups))
	add := func(name string) {
		if _, out := a.chosen.excluded[name]; !out && a.settings.Filter.Excludes(name) == "" {
			set[name] = struct{}{}
		}
	}
	for name := range a.source.Groups {
		set[name] = struct{}{}
	}
	for name := range a.source.Failed {
		set[name] = struct{}{}
	}
	for name := range a.m.groups {
		if _, there := set[name]; !there {
			add(name)
		}
	}
	if a.m.at.IsZero() { // later all of them are known
		for name := range a.s.opt.Store.All() {
			add(name)
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (a *attempt) isDue(name string, changed, longer map[Key]bool) bool {
	k := a.m.groups[name]
	if k == nil || k.open || !k.stale.IsZero() || a.m.share(name) {
		return true
	}
	now, there := a.source.Groups[name]
	old, was := a.m.source[name]
	if there != was || there && !sameOffsets(old, now) {
		return true
	}
	dst := a.settings.Filter.Target(name)
	if is, there := a.listed.Groups[dst]; changedOnTarget(a.m.target[dst], is, there) {
		return true
	}
	if slices.ContainsFunc(k.ahead, func(k Key) bool { return longer[k] }) {
		return true
	}
	return len(changed) > 0 && slices.ContainsFunc(k.rows, func(r Row) bool { return changed[r.Key] })
}

// changedOnTarget reports whether a group has become another one on the target. One that appears without members was
// most likely written by us.
func changedOnTarget(was, is Group, there bool) bool {
	if was.Name == "" {
		return there && !is.Idle()
	}
	return !there || was.Idle() != is.Idle() || was.Type != is.Type
}

// sameOffsets reports whether a group stands where it stood.
func sameOffsets(a, b Group) bool {
	same := reflect.ValueOf(a.Offsets).Pointer() == reflect.ValueOf(b.Offsets).Pointer() // one map in both pictures: see Observer
	return a.Type == b.Type && a.Protocol == b.Protocol && len(a.Unstable) == len(b.Unstable) && (same || maps.Equal(a.Offsets, b.Offsets))
}

// changedLanes returns the lanes whose map means something else than before, and those whose map has become longer.
func (a *attempt) changedLanes() (changed, longer map[Key]bool) {
	changed, longer = make(map[Key]bool), make(map[Key]bool)
	ends := make(map[Key]int64, len(a.lanes))
	for k, now := range a.lanes {
		old, there := a.m.lanes[k]
		if !there || old.DstTopic != now.DstTopic || old.Opening != now.Opening || old.Held != now.Held || (old.Map == nil) != (now.Map == nil) {
			changed[k] = true
		}
		if now.Map == nil {
			continue
		}
		ends[k], _ = now.Map.End()
		if ends[k] != a.m.moved[k] {
			longer[k] = true
		}
	}
	for k := range a.m.lanes {
		if _, there := a.lanes[k]; !there {
			changed[k] = true
		}
	}
	a.m.lanes, a.m.moved = a.lanes, ends
	return changed, longer
}

// decide plans for groups, and reads of the target what that needs.
func (a *attempt) decide(ctx context.Context, names []string) ([]Row, error) {
	if len(names) == 0 {
		return nil, nil
	}
	a.refreshEnds(ctx, names)
	in := Input{Now: a.at, Source: a.source.only(names), Lanes: a.lanes, Bases: make(map[string]map[Key]Base, len(names)), Accept: a.accept,
		Rules: Rules{Link: a.s.opt.Link, Sync: a.settings.Sync && a.hold.Writes == "", MaxRewind: a.settings.MaxRewind, RewindHold: a.settings.RewindHold,
			Retention: a.m.retention, DstGroup: a.settings.Filter.Target}}
	a.refreshStarts(ctx, in.Source)
	bases := a.s.opt.Store.All()
	in.Known = len(bases)
	dst := make([]string, len(names))
	for i, name := range names {
		dst[i] = a.settings.Filter.Target(name)
		if b, ok := bases[name]; ok {
			in.Bases[name] = b
		}
	}
	in.Target = a.s.opt.Sides.Target(ctx, dst)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows := Plan(in)
	a.holdStrangers(ctx, rows)
	for i := range rows {
		switch r := &rows[i]; {
		case r.State == StateSyncOff && a.hold.Writes != "":
			r.Detail = a.hold.Writes
		case r.State == StateNotYetCopied && r.Detail == "":
			r.Detail = a.lanes[r.Key].Waits
		}
	}
	return rows, nil
}

// only returns the part of a picture that is about some groups.
func (p Picture) only(names []string) Picture {
	out := Picture{Groups: make(map[string]Group, len(names)), Failed: make(map[string]error), Partial: p.Partial}
	for _, name := range names {
		if g, ok := p.Groups[name]; ok {
			out.Groups[name] = g
		}
		if err, ok := p.Failed[name]; ok {
			out.Failed[name] = err
		}
	}
	return out
}

// write stores what is about to be written, and writes it. Without the first nothing is written: a crash in between would
// make our own writing look like a stranger's.
func (a *attempt) write(ctx context.Context, rows []Row) ([]Row, error) {
	if len(rows) == 0 {
		return rows, nil
	}
	if err := a.mayWrite(ctx); err != nil {
		return unwritten(rows, err), err
	}
	if err := a.s.opt.Store.Save(ctx, rows); err != nil {
		err = sideFault(StateTargetUnreadable, "store what is about to be written", err)
		return unwritten(rows, err), err
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Write }) {
		return rows, nil
	}
	// This process may have been frozen since it looked: whoever took the link over is seen by now.
	if err := a.readState(ctx); err != nil {
		return unwritten(rows, err), err
	}
	if err := a.mayWrite(ctx); err != nil {
		return unwritten(rows, err), err
	}
	failpoint.Pass("after_bases")
	written := a.s.opt.Sides.Apply(ctx, rows)
	failpoint.Pass("after_commit")
	return written, nil
}

// mayWrite asks once more: much can have happened since the pass began.
func (a *attempt) mayWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := a.s.opt.Hold()
	switch {
	case now.Source != "":
		return &sideError{StateLaneHeld, fmt.Errorf("the source was replaced: %s", now.Source)}
	case now.Writes != a.hold.Writes && now.Writes != "":
		return &sideError{StateSyncOff, fmt.Errorf("%s", now.Writes)}
	}
	return nil
}

// unwritten are rows whose writes did not come about.
func unwritten(rows []Row, err error) []Row {
	out := slices.Clone(rows)
	for i := range out {
		if out[i].Write {
			out[i].Write, out[i].State, out[i].Detail = false, StatePending, err.Error()
		}
	}
	return out
}

// remember keeps what was decided about names, and what else the pass saw.
func (a *attempt) remember(names []string, rows []Row) {
	of := byGroup(rows)
	for _, name := range names {
		if rs := of[name]; len(rs) > 0 {
			a.m.put(name, rs)
		} else {
			a.m.drop(name)
		}
	}
	for name, err := range a.unread {
		a.rememberUnread(name, err)
	}
	for name := range a.chosen.excluded {
		a.m.put(name, []Row{a.chosen.row(name)})
	}
	a.dropOthers()
	a.m.source, a.m.target, a.m.at = a.source.Groups, a.listed.Groups, a.at
}

// rememberUnread keeps a group's rows, and since when they are old.
func (a *attempt) rememberUnread(name string, err error) {
	k := a.m.groups[name]
	if k == nil {
		a.m.put(name, []Row{{Group: name, DstGroup: a.settings.Filter.Target(name), Source: -1, Translated: -1, Target: -1}})
		k = a.m.groups[name]
	}
	since := k.stale
	if since.IsZero() {
		if since = a.m.at; since.IsZero() {
			since = a.at
		}
	}
	state := StateSourceUnreadable
	if _, reason := kafka.Classify(err); reason == model.ReasonNotAuthorized {
		state = StateNotAuthorized
	}
	a.m.put(name, troubled(k.rows, state, err))
	k.stale = since
	if g, ok := a.m.source[name]; ok {
		a.source.Groups[name] = g
	}
}

// byGroup cuts ordered rows into those of each group.
func byGroup(rows []Row) map[string][]Row {
	of := make(map[string][]Row)
	for g := range eachGroup(rows) {
		of[g[0].Group] = g
	}
	return of
}

// dropOthers forgets groups that are left out now, or were, and are gone from the source.
func (a *attempt) dropOthers() {
	for name, k := range a.m.groups {
		_, there := a.source.Groups[name]
		_, unread := a.unread[name]
		_, excluded := a.chosen.excluded[name]
		if !there && !unread && !excluded && (k.excluded() || a.settings.Filter.Excludes(name) != "") {
			a.m.drop(name)
		}
	}
}

// result is the pass as it is shown.
func (a *attempt) result() Pass {
	return Pass{At: a.at, Took: a.s.now().Sub(a.began), Groups: a.source.Groups, Target: a.listed.Groups, Rows: a.m.all(), Lanes: a.lanes, Stale: a.m.stale()}
}

// failed is the pass before, with what is known about it now.
func (a *attempt) failed(err error) Pass {
	p := *a.s.last.Load()
	p.Err, p.Took = err, a.s.now().Sub(a.began)
	if len(p.Rows) > 0 {
		p.Rows, p.Stale = troubled(p.Rows, stateOf(err), err), allStale(p)
	}
	return p
}

// troubled are rows of which nothing newer is known, for a reason.
func troubled(rows []Row, state State, err error) []Row {
	out := slices.Clone(rows)
	for i := range out {
		if out[i].State != StateExcluded && out[i].State != StateNoMirroredTopics {
			out[i].State, out[i].Detail, out[i].Write = state, err.Error(), false
		}
	}
	return out
}

// allStale tells when the positions of a pass's groups were read: none of them by the newest one.
func allStale(p Pass) map[string]time.Time {
	out := maps.Clone(p.Stale)
	if out == nil {
		out = make(map[string]time.Time)
	}
	for i := range p.Rows {
		if _, there := out[p.Rows[i].Group]; !there {
			out[p.Rows[i].Group] = p.At
		}
	}
	return out
}
