package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// story is one group over time: its position on both sides, leaders that come and go with their commits on the way, and
// what the rule must never do. Records stand at the same offsets on both sides; what lockstep may write is even, what
// others write on the target is odd.
type story struct {
	t      *rapid.T
	lane   Lane
	now    time.Time
	source int64
	target Group
	topic  *stateTopic
	bases  *Bases
	flying []flight
	landed flight // the last of them that has arrived
	moves  int    // of anything, to let commits arrive in time
	// lastGood is the position that was decided upon last, far when the source was first seen far behind it.
	lastGood int64
	far      time.Time
	accepted bool
	told     []string
}

// flight is a commit on its way.
type flight struct {
	off     int64
	by      time.Time // when the broker has given it up
	byMoves int
}

const logEnd = 100_000

func newStory(t *rapid.T) *story {
	s := &story{t: t, now: start, source: 20_000, topic: &stateTopic{}, target: Group{Type: TypeClassic, State: "Empty", Offsets: map[Key]Committed{}}}
	s.lane = Lane{DstTopic: "orders", Opening: 1, SrcEnd: -1, Map: storyMap(t)}
	s.bases = newBases(s.topic, s.topic)
	s.bases.now = func() time.Time { return s.now }
	return s
}

// storyMap maps every offset to itself.
func storyMap(t *rapid.T) *offsetsync.Map {
	m := offsetsync.NewMap(0, 0)
	if err := m.Append(model.Span{N: logEnd}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *story) say(format string, args ...any) {
	s.told = append(s.told, s.now.Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (s *story) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(s.told, "\n"))
}

func (s *story) theirs() int64 {
	if c, ok := s.target.Offsets[orders]; ok {
		return c.Offset
	}
	return -1
}

// step lets one thing happen.
func (s *story) step() {
	t := s.t
	s.moves++
	switch rapid.IntRange(0, 13).Draw(t, "what happens") {
	case 0, 1, 2:
		s.source = min(logEnd, s.source+2*rapid.Int64Range(0, 500).Draw(t, "records"))
		s.say("the source commits %d", s.source)
	case 3:
		s.source = 2 * rapid.Int64Range(0, s.source/2).Draw(t, "reset to half of")
		s.say("the source is reset to %d", s.source)
	case 4:
		if s.target.State != "Empty" || rapid.Bool().Draw(t, "by hand") {
			s.set(2*rapid.Int64Range(0, logEnd/2).Draw(t, "half") + 1)
			s.say("somebody moves the target to %d", s.theirs())
		}
	case 5:
		s.target.State = rapid.SampledFrom([]string{"Empty", "Stable", "PreparingRebalance", "Dead", ""}).Draw(t, "target state")
		s.say("on the target it is %q", s.target.State)
	case 6:
		s.wait(rapid.SampledFrom([]time.Duration{2 * time.Second, time.Minute, 6 * time.Minute, 26 * time.Hour}).Draw(t, "time"))
	case 7:
		delete(s.target.Offsets, orders)
		s.say("the target's position expires")
	case 8, 9:
		s.pass(true)
	case 10:
		s.pass(false) // the commit does not come about
	case 11:
		s.pass(false)
		s.takeOver()
	case 12:
		s.delayed()
	case 13:
		s.arrive(len(s.flying))
	}
}

func (s *story) set(off int64) { s.target.Offsets[orders] = Committed{Offset: off} }

// wait lets time pass. What cannot be on its way for longer arrives.
func (s *story) wait(d time.Duration) {
	until := s.now.Add(d)
	for len(s.flying) > 0 && !s.flying[0].by.After(until) {
		s.arrive(1)
	}
	s.now = until
	s.say("%v pass", d)
}

// arrive lets the first commits that are on their way arrive. Brokers refuse them for groups with members.
func (s *story) arrive(n int) {
	for range n {
		f := s.flying[0]
		s.flying = s.flying[1:]
		if s.target.Idle() {
			s.set(f.off)
			s.landed = f
			s.say("the late commit of %d arrives", f.off)
		}
	}
}

// plan is what a pass decides, with the promises checked.
func (s *story) plan() Row {
	in := Input{
		Now: s.now, Rules: usual(), Lanes: map[Key]Lane{orders: s.lane}, Bases: s.bases.All(), Accept: map[string]bool{"billing": s.accepted},
		Source: Picture{Groups: map[string]Group{"billing": group(s.source)}}, Target: Picture{Groups: map[string]Group{"billing": s.target}},
	}
	r := Plan(in)[0]
	s.say("plans %d over %d: %s %s", r.Translated, r.Target, r.State, r.Detail)
	s.check(r)
	return r
}

func (s *story) check(r Row) {
	foreign := r.Target >= 0 && r.Target%2 == 1
	forgotten := r.Target == s.landed.off && !s.now.Before(s.landed.by) // arrived in time, but nobody looked in time
	if (r.State == StateMovedOnTarget || r.State == StateExistsOnTarget) && !foreign && !forgotten {
		s.fail("what lockstep wrote, %d, is taken for a stranger's", r.Target)
	}
	if (r.State == StateActiveOnTarget) != !s.target.Idle() && r.State != StateSuspectSource {
		s.fail("state %s, on the target it is %q", r.State, s.target.State)
	}
	if r.Write {
		s.checkWrite(r, foreign)
	}
	if s.lastGood-s.source > usual().MaxRewind {
		if s.far.IsZero() {
			s.far = s.now
		}
	} else {
		s.far = time.Time{}
	}
}

func (s *story) checkWrite(r Row, foreign bool) {
	if foreign && !s.accepted {
		s.fail("writes over what somebody else moved")
	}
	if !s.target.Idle() {
		s.fail("writes into a group that is %q", s.target.State)
	}
	switch {
	case r.Translated == s.source:
	case r.Translated == s.lastGood && r.Translated == r.Target && r.State == StateSuspectSource:
		return // written again
	default:
		s.fail("writes %d", r.Translated)
	}
	if r.Backwards != (s.source < r.Target || r.Target < 0 && s.source < s.lastGood) {
		s.fail("backwards is %v", r.Backwards)
	}
	far := s.lastGood-s.source > usual().MaxRewind
	if far && !s.accepted && (s.source == 0 || s.far.IsZero() || s.now.Sub(s.far) < usual().RewindHold) {
		s.fail("follows a source that went back from %d, seen since %v", s.lastGood, s.far)
	}
}

// save stores what a pass decided.
func (s *story) save(r Row) {
	if err := s.bases.Save(s.t.Context(), []Row{r}); err != nil {
		s.t.Fatal(err)
	}
	if r.Save && r.State != StateSuspectSource {
		s.lastGood = r.Base.Source
	}
}

func (s *story) pass(commits bool) Row {
	r := s.plan()
	s.save(r)
	if r.Write && commits {
		s.set(r.Translated)
	}
	return r
}

// delayed is a leader that is replaced while its commit is on the way.
func (s *story) delayed() {
	r := s.plan()
	s.save(r)
	if r.Write && len(s.flying) == 0 {
		s.flying = append(s.flying, flight{off: r.Translated, by: r.Base.At.Add(rememberFor - time.Second), byMoves: s.moves + rememberStored - 1})
		s.say("its commit of %d is on the way", r.Translated)
	}
	s.takeOver()
}

// takeOver lets another process go on with what the log holds; of what is older than a segment only the newest is left.
func (s *story) takeOver() {
	if rapid.Bool().Draw(s.t, "compacted") && len(s.topic.entries) > 0 {
		s.topic.entries = slices.Clone(s.topic.entries[len(s.topic.entries)-1:])
	}
	s.topic, s.bases = s.topic.another(func() time.Time { return s.now })
	s.say("another leader takes over")
}

// A leader that is told of nobody's interference gets the group where it belongs, and stays quiet then.
func (s *story) settle() {
	s.arrive(len(s.flying))
	s.target.State = "Empty"
	for range 3 {
		s.pass(true)
		s.wait(6 * time.Minute)
	}
	if r := s.plan(); r.State == StateMovedOnTarget || r.State == StateExistsOnTarget || r.State == StateSuspectSource && s.source == 0 || r.State == StateSuspectSource && r.Base.Suspect.Forever {
		s.accepted = true
		s.pass(true)
		s.accepted = false
	}
	if r := s.pass(true); r.State != StateSynced || s.theirs() != s.source || r.Write {
		s.fail("left alone it is %s, at %d and not at %d", r.State, s.theirs(), s.source)
	}
	before := len(s.topic.entries)
	if s.pass(true); len(s.topic.entries) != before {
		s.fail("a pass without news has stored something")
	}
}

func TestRule_Stories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(s.flying) > 0 && s.moves >= s.flying[0].byMoves {
				s.arrive(1)
			}
			s.step()
		}
		s.settle()
	})
}
