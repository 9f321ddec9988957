package checkpoint

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// suspected is a base whose position has been suspect for a while.
func suspected(b *Base, since time.Duration, forever bool) *Base {
	return b.with(func(b *Base) {
		b.Suspect = &Suspicion{Source: 0, Since: start.Add(-since), Forever: forever, Why: "it was"}
	})
}

func TestSuspect(t *testing.T) {
	t.Parallel()
	good := base(50_010, 50_000)
	for name, c := range map[string]struct {
		situation
		state   State
		write   bool
		save    bool
		forever bool
		since   time.Duration
		detail  string
	}{
		"back within what is usual": {situation: situation{source: at(40_010), base: good}, state: StatePending, write: true, save: true},
		"back further":              {situation: situation{source: at(40_009), base: good}, state: StateSuspectSource, save: true, detail: "back by 10001, from 50010 to 40009"},
		"still": {situation: situation{source: at(30_000), base: suspected(good, 4*time.Minute, false)}, state: StateSuspectSource, since: 4 * time.Minute,
			detail: "is followed from " + start.Add(time.Minute).UTC().Format(time.RFC3339)},
		"for long enough":           {situation: situation{source: at(30_000), base: suspected(good, 5*time.Minute, false)}, state: StatePending, write: true, save: true},
		"to 0":                      {situation: situation{source: at(0), base: good}, state: StateSuspectSource, save: true, forever: true, detail: "where the source's log begins"},
		"to the log's start":        {situation: situation{source: at(200), base: good, lane: standard(t).with(func(l *Lane) { l.SrcStart = 200 })}, state: StateSuspectSource, save: true, forever: true},
		"there, long ago":           {situation: situation{source: at(0), base: suspected(good, 48*time.Hour, true)}, state: StateSuspectSource, forever: true, since: 48 * time.Hour},
		"there, and moved on":       {situation: situation{source: at(9_000), base: suspected(good, 48*time.Hour, true)}, state: StateSuspectSource, forever: true, since: 48 * time.Hour},
		"held, then to the start":   {situation: situation{source: at(0), base: suspected(good, 4*time.Minute, false)}, state: StateSuspectSource, save: true, forever: true, since: 4 * time.Minute},
		"accepted":                  {situation: situation{source: at(0), base: suspected(good, 48*time.Hour, true), accept: true}, state: StatePending, write: true, save: true, detail: "accepted"},
		"came back":                 {situation: situation{source: at(50_010), base: suspected(good, time.Hour, true)}, state: StateSynced, save: true},
		"came back nearly":          {situation: situation{source: at(41_010), base: suspected(good, time.Hour, true)}, state: StatePending, write: true, save: true},
		"came back further":         {situation: situation{source: at(60_010), base: suspected(good, time.Hour, true)}, state: StatePending, write: true, save: true},
		"beyond the end":            {situation: situation{source: at(100_011), base: good, lane: standard(t).with(func(l *Lane) { l.SrcEnd = 100_010 })}, state: StateSuspectSource, detail: "100011 is beyond the end of the source's log, 100010"},
		"beyond, accepted":          {situation: situation{source: at(100_011), base: good, accept: true, lane: standard(t).with(func(l *Lane) { l.SrcEnd = 100_010 })}, state: StatePending, write: true, save: true},
		"beyond, followed before":   {situation: situation{source: at(100_011), base: good.with(func(b *Base) { b.Source, b.Ahead = 100_011, true }), lane: standard(t).with(func(l *Lane) { l.SrcEnd = 100_010 })}, state: StatePending, write: true, save: true},
		"ahead of an unknown end":   {situation: situation{source: at(100_011), base: good, lane: standard(t).with(func(l *Lane) { l.SrcEnd = -1 })}, state: StatePending, detail: "reaches up to 100011 is not known"},
		"the same, accepted":        {situation: situation{source: at(100_011), base: good, accept: true, lane: standard(t).with(func(l *Lane) { l.SrcEnd = -1 })}, state: StatePending, write: true, save: true},
		"at the end":                {situation: situation{source: at(100_010), base: good, lane: standard(t).with(func(l *Lane) { l.SrcEnd = 100_010 })}, state: StatePending, write: true, save: true},
		"vanished":                  {situation: situation{base: good}, state: StateSuspectSource, save: true, forever: true, detail: "it stood at 50010"},
		"vanished long ago":         {situation: situation{base: suspected(good, 48*time.Hour, true)}, state: StateSuspectSource, forever: true, since: 48 * time.Hour},
		"its position vanished":     {situation: situation{source: &Group{Type: TypeClassic, State: "Empty"}, base: good}, state: StateSuspectSource, save: true, forever: true},
		"vanished, back far behind": {situation: situation{source: at(20_000), base: suspected(good, 48*time.Hour, true)}, state: StateSuspectSource, forever: true, since: 48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.lane.DstTopic == "" {
				c.lane = standard(t)
			}
			c.target = at(50_000)
			r := c.row(t)
			if r.State != c.state || r.Write != c.write || r.Save != c.save || !strings.Contains(r.Detail, c.detail) {
				t.Errorf("%s, write %v, save %v, %q; want %s, write %v, save %v, %q", r.State, r.Write, r.Save, r.Detail, c.state, c.write, c.save, c.detail)
			}
			s := r.Base.Suspect
			if lasting := c.state == StateSuspectSource && c.detail != "100011 is beyond the end of the source's log, 100010"; (s != nil) != lasting {
				t.Fatalf("stores the suspicion %+v", s)
			}
			if s != nil && (s.Forever != c.forever || s.Since != start.Add(-c.since)) {
				t.Errorf("stores %+v", s)
			}
			if c.state == StateSuspectSource && (r.Base.Next != 50_000 || r.Base.Source != 50_010 || r.Translated != 50_000) {
				t.Errorf("the good position is lost: %+v", r)
			}
		})
	}
}

func TestSuspect_BeyondTheEndBeforeAnythingWasWritten(t *testing.T) {
	t.Parallel()
	r := situation{source: at(100_011), lane: standard(t).with(func(l *Lane) { l.SrcEnd = 100_010 })}.row(t)
	if r.Write || r.Save || r.State != StateSuspectSource {
		t.Errorf("%+v", r)
	}
}

func TestSuspect_VanishedAndAcceptedIsForgotten(t *testing.T) {
	t.Parallel()
	s := situation{base: suspected(base(50_010, 50_000), time.Hour, true), target: at(50_000), lane: standard(t), accept: true}
	if r := s.row(t); !r.Forget || r.Write || r.Source != -1 {
		t.Errorf("%+v", r)
	}
}

// A hold that was over must not begin anew while the target keeps the group from following.
func TestSuspect_HoldGoesOnWhileTheTargetIsActive(t *testing.T) {
	t.Parallel()
	target := group(50_000)
	target.State = "Stable"
	s := situation{source: at(30_000), target: &target, base: suspected(base(50_010, 50_000), time.Hour, false), lane: standard(t)}
	if r := s.row(t); r.State != StateActiveOnTarget || r.Write || r.Save || r.Base.Suspect == nil {
		t.Errorf("%+v", r)
	}
}

// What has passed is over, whatever keeps the group from following on the target: the next time begins anew.
func TestSuspect_PassesWhileTheTargetIsActive(t *testing.T) {
	t.Parallel()
	target := group(50_000)
	target.State = "Stable"
	s := situation{source: at(50_010), target: &target, base: suspected(base(50_010, 50_000), time.Hour, true), lane: standard(t)}
	if r := s.row(t); r.State != StateActiveOnTarget || r.Write || !r.Save || r.Base.Suspect != nil || r.Base.Next != 50_000 {
		t.Errorf("%+v", r)
	}
}

func TestSuspect_ManyAtOnceWaitForEver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		groups, suspect, known int
		accept                 bool
		forever                bool
	}{
		{groups: 20, suspect: 3, forever: true}, {groups: 30, suspect: 3}, {groups: 10, suspect: 2}, {groups: 20, suspect: 3, known: 100}, {groups: 3, suspect: 3, known: 29, forever: true},
		{groups: 20, suspect: 3, accept: true},
	} {
		in := Input{
			Now: start, Rules: usual(), Lanes: map[Key]Lane{orders: standard(t)}, Bases: map[string]map[Key]Base{}, Known: c.known,
			Source: Picture{Groups: map[string]Group{}}, Target: Picture{Groups: map[string]Group{}}, Accept: map[string]bool{},
		}
		for i := range c.groups {
			name := fmt.Sprintf("g%02d", i)
			off := int64(50_010)
			if i < c.suspect {
				off, in.Accept[name] = 30_000, c.accept
			}
			in.Source.Groups[name], in.Target.Groups[name] = group(off), group(50_000)
			in.Bases[name] = map[Key]Base{orders: *base(50_010, 50_000)}
		}
		for _, r := range Plan(in)[:c.suspect] {
			if c.accept {
				if !r.Write {
					t.Errorf("%+v: %+v", c, r)
				}
				continue
			}
			if r.State != StateSuspectSource || r.Base.Suspect.Forever != c.forever || strings.Contains(r.Detail, "at once") != c.forever {
				t.Errorf("%+v: %s %q %+v", c, r.State, r.Detail, r.Base.Suspect)
			}
		}
	}
}
