package checkpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
)

// change returns a copy of a lane.
func (l Lane) with(change func(*Lane)) Lane {
	change(&l)
	return l
}

func (b Base) with(change func(*Base)) *Base {
	change(&b)
	return &b
}

// reopened is the standard lane after its source was truncated at 40,010 and grew again: what comes behind stands 100
// further on the target.
func reopened(t *testing.T) Lane {
	m := mapOf(t, 100_010, 100_100, model.Span{Src: 10, N: 40_000}, model.Span{Src: 40_010, Dst: 40_100, N: 60_000})
	return laneOf(m).with(func(l *Lane) { l.Opening = 2 })
}

func TestRule(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration, off int64) Stamped { return Stamped{Offset: off, At: start.Add(-d)} }
	back := laneOf(mapOf(t, 40_010, 40_000, model.Span{Src: 10, N: 40_000})).with(func(l *Lane) { l.Opening = 2 })
	for name, c := range map[string]struct {
		situation
		state  State
		write  bool
		dst    int64
		detail string
		save   bool
	}{
		"the target has what was written": {situation: situation{source: at(510), target: at(400), base: base(410, 400)}, state: StatePending, write: true, dst: 500},
		"the target has nothing":          {situation: situation{source: at(510), base: base(410, 400)}, state: StatePending, write: true, dst: 500},
		"the target has it":               {situation: situation{source: at(510), target: at(500), base: base(510, 500)}, state: StateSynced, dst: 500},
		"the target had it before": {
			situation: situation{source: at(510), target: at(500)}, state: StateSynced, dst: 500, save: true},
		"somebody else moved it there": {
			situation: situation{source: at(510), target: at(500), base: base(410, 400)}, state: StateSynced, dst: 500, save: true},
		"written, and not committed": {
			situation: situation{source: at(510), target: at(390), base: base(410, 400).with(func(b *Base) { b.Was = []Stamped{ago(48*time.Hour, 390)} })},
			state:     StatePending, write: true, dst: 500},
		"an old leader's commit came late": {
			situation: situation{source: at(510), target: at(380), base: base(410, 400).with(func(b *Base) { b.Was = []Stamped{ago(9*time.Minute, 380), ago(time.Minute, 390)} })},
			state:     StatePending, write: true, dst: 500},
		"what was written long ago is a stranger's": {
			situation: situation{source: at(510), target: at(380), base: base(410, 400).with(func(b *Base) { b.Was = []Stamped{ago(11*time.Minute, 380), ago(time.Minute, 390)} })},
			state:     StateMovedOnTarget, dst: 500, detail: "400, somebody else 380"},
		"moved, accepted": {
			situation: situation{source: at(510), target: at(380), base: base(410, 400), accept: true}, state: StatePending, write: true, dst: 500, detail: "accepted"},
		"moved back a little on the source": {
			situation: situation{source: at(5_010), target: at(15_000), base: base(15_010, 15_000)},
			state:     StatePending, write: true, dst: 5_000, detail: "from 15010 to 5010"},
		"the copying took another branch": {
			situation: situation{source: at(50_010), target: at(50_000), base: base(50_010, 50_000), lane: back},
			state:     StatePending, write: true, dst: 40_000, detail: "stood at 50000 and stands at 40000"},
		"another branch, and moved on": {
			situation: situation{source: at(50_010), target: at(50_000), base: base(50_010, 50_000), lane: reopened(t)},
			state:     StatePending, write: true, dst: 50_100},
		"the picture of the copying is old": {
			situation: situation{source: at(50_010), target: at(50_000), base: base(50_010, 50_000), lane: back.with(func(l *Lane) { l.Opening = 1 })},
			state:     StatePending, dst: 40_000, detail: "waits for news"},
		"the same, and the source moved back": {
			situation: situation{source: at(50_000), target: at(50_000), base: base(50_010, 50_000), lane: back.with(func(l *Lane) { l.Opening = 1 })},
			state:     StatePending, dst: 40_000, detail: "waits for news"},
		"nothing tells why it would go back": { // the target's log start is not known any more
			situation: situation{source: at(510), target: at(700), base: base(510, 700)}, state: StatePending, dst: 500, detail: "stays at 700"},
		"decided to go back, and not committed": {
			situation: situation{source: at(5_010), target: at(15_000), base: base(5_010, 5_000).with(func(b *Base) { b.Was = []Stamped{ago(time.Hour, 15_000)} })},
			state:     StatePending, write: true, dst: 5_000},
		"ahead":              {situation: situation{source: at(100_020), target: at(400), base: base(410, 400)}, state: StatePending, write: true, dst: 100_000},
		"not yet copied":     {situation: situation{source: at(510), lane: Lane{DstTopic: "orders", SrcEnd: -1}}, state: StateNotYetCopied, dst: -1},
		"the lane is held":   {situation: situation{source: at(510), target: at(400), base: base(410, 400), lane: standard(t).with(func(l *Lane) { l.Held = model.ReasonRecreated })}, state: StateLaneHeld, dst: 400, detail: "recreated"},
		"held, and accepted": {situation: situation{source: at(510), target: at(400), base: base(410, 400), accept: true, lane: standard(t).with(func(l *Lane) { l.Held = model.ReasonRecreated })}, state: StateLaneHeld, dst: 400},
		"source unreadable":  {situation: situation{sourceFailed: errAway, target: at(400), base: base(410, 400)}, state: StateSourceUnreadable, dst: 400, detail: errAway.Error()},
		"source list partial": {
			situation: situation{partial: errAway, target: at(400), base: base(410, 400)}, state: StateSourceUnreadable, dst: 400, detail: errAway.Error()},
		"position on the target about to change": {
			situation: situation{source: at(510), base: base(410, 400), target: &Group{Type: TypeClassic, State: "Empty", Unstable: map[Key]error{orders: errAway}}},
			state:     StateTargetUnreadable, dst: 500, detail: errAway.Error()},
		"share group there": {
			situation: situation{source: at(510), target: &Group{Type: TypeShare, State: "Empty"}}, state: StateTypeConflict, dst: 500, detail: "share"},
		"connect group there": {
			situation: situation{source: at(510), target: &Group{Type: TypeClassic, Protocol: "connect", State: "Empty"}}, state: StateTypeConflict, dst: 500, detail: "connect"},
		"dead on the target": {
			situation: situation{source: at(510), target: &Group{Type: TypeClassic, State: "Dead"}}, state: StatePending, write: true, dst: 500},
		"KIP-848 group": {
			situation: situation{source: &Group{Type: TypeConsumer, Protocol: "consumer", State: "Stable", Offsets: map[Key]Committed{orders: {Offset: 510}}}},
			state:     StatePending, write: true, dst: 500},
		"connect group of the source": {
			situation: situation{source: &Group{Type: TypeClassic, Protocol: "connect", State: "Stable", Offsets: map[Key]Committed{orders: {Offset: 510}}}},
			state:     StatePending, write: true, dst: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.lane.DstTopic == "" {
				c.lane = standard(t)
			}
			r := c.row(t)
			if r.State != c.state || r.Write != c.write || r.Translated != c.dst || r.Save != (c.write || c.save) || !strings.Contains(r.Detail, c.detail) {
				t.Errorf("%s, write %v, save %v, %d, %q\nwant %s, write %v, save %v, %d, %q",
					r.State, r.Write, r.Save, r.Translated, r.Detail, c.state, c.write, c.write || c.save, c.dst, c.detail)
			}
			if want := r.Target > r.Translated && r.Write; r.Backwards != want {
				t.Errorf("backwards is %v, %d → %d", r.Backwards, r.Target, r.Translated)
			}
			if r.Save && (r.Base.Next != r.Translated || r.Base.At != start || r.Base.Source != r.Source) {
				t.Errorf("stores %+v for %d → %d", r.Base, r.Source, r.Translated)
			}
		})
	}
}

// What would be read again are records, not offsets: a marker and a stranger's record are none.
func TestRule_RecordsAgain(t *testing.T) {
	t.Parallel()
	lane := laneOf(mapOf(t, 100, 105, model.Span{Src: 0, Dst: 0, N: 50}, model.Span{Src: 50, Dst: 55, N: 50}))
	for _, c := range []struct{ theirs, again int64 }{{10, 50}, {60, 5}, {65, 0}, {70, -5}, {-1, 60}} {
		s := situation{source: at(60), base: base(10, 10), lane: lane}
		if c.theirs >= 0 {
			s.target = at(c.theirs)
		}
		if r := s.row(t); r.Translated != 65 || r.Again != c.again {
			t.Errorf("the target has %d: %d again, want %d (%s)", c.theirs, r.Again, c.again, r.State)
		}
	}
}

func TestRule_SyncOffWritesAndStoresNothing(t *testing.T) {
	t.Parallel()
	rules := usual()
	rules.Sync = false
	for _, s := range []situation{
		{source: at(510)}, {source: at(510), target: at(500)}, {source: at(0), target: at(50_000), base: base(50_010, 50_000)}, {target: at(500), base: base(510, 500)},
		{source: at(510), target: at(500), base: base(510, 500).with(func(b *Base) { b.At = start.Add(-24 * time.Hour) })},
	} {
		s.rules, s.lane = rules, standard(t)
		if r := s.row(t); r.Write || r.Save {
			t.Errorf("%+v", r)
		}
	}
	r := situation{source: at(510), rules: rules, lane: standard(t)}.row(t)
	if r.State != StateSyncOff || r.Translated != 500 {
		t.Errorf("%+v", r)
	}
}

func TestRule_NewBase(t *testing.T) {
	t.Parallel()
	b := base(410, 400)
	b.At = start.Add(-time.Minute)
	b.Was = []Stamped{{390, start.Add(-11 * time.Minute), false}, {395, start.Add(-5 * time.Minute), false}}
	r := situation{source: at(100_020), target: at(395), base: b, lane: standard(t)}.row(t)
	want := Base{Source: 100_020, Next: 100_000, At: start, Opening: 1, Ahead: true, Was: []Stamped{{400, start.Add(-time.Minute), false}, {395, start, true}}}
	if diff := cmp.Diff(want, r.Base); diff != "" {
		t.Error(diff)
	}
	if len(b.Was) != 2 || b.Was[0].Offset != 390 {
		t.Errorf("the input was changed: %+v", b.Was)
	}
}

// A target that does not take commits for long: none of what was tried is forgotten before it can no longer arrive, and
// what the target had before never is.
func TestRule_RemembersWhatMayStillArrive(t *testing.T) {
	t.Parallel()
	b, target := base(110, 100), at(100)
	now := start
	for i := range int64(400) { // every two seconds
		in := Input{
			Now: now, Rules: usual(), Lanes: map[Key]Lane{orders: standard(t)}, Bases: map[string]map[Key]Base{"billing": {orders: *b}},
			Source: Picture{Groups: map[string]Group{"billing": group(200 + i)}}, Target: Picture{Groups: map[string]Group{"billing": *target}},
		}
		rows := Plan(in)
		if !rows[0].Write {
			t.Fatalf("pass %d: %+v", i, rows[0])
		}
		b, now = &rows[0].Base, now.Add(2*time.Second)
	}
	for theirs, want := range map[int64]bool{100: true, 589: true, 400: true, 250: false, 12345: false} {
		if got := b.wrote(theirs, now); got != want {
			t.Errorf("wrote(%d) = %v", theirs, got)
		}
	}
	if kept := stored(*b); len(kept) != rememberStored+1 || kept[rememberStored].Offset != 100 || kept[0].Offset != 581 {
		t.Errorf("of %d values these would be stored: %+v", len(b.Was), kept)
	}
}

// A target that refuses commits does not fill the state topic.
func TestRule_StoresWhatIsTriedAgainOnceAMinute(t *testing.T) {
	t.Parallel()
	s := situation{source: at(510), target: at(400), base: base(410, 400), lane: standard(t)}
	first := s.row(t)
	for age, save := range map[time.Duration]bool{2 * time.Second: false, 59 * time.Second: false, time.Minute: true} {
		s.base = first.Base.with(func(b *Base) { b.At = start.Add(-age) })
		r := s.row(t)
		if !first.Save || !r.Write || r.Save != save || r.Base.Next != 500 {
			t.Errorf("after %v: %+v", age, r)
		}
	}
	s.base, s.target = &first.Base, at(401)
	if r := s.row(t); r.Write {
		t.Errorf("moved meanwhile: %+v", r)
	}
	s.accept = true
	if r := s.row(t); !r.Write || !r.Save {
		t.Errorf("and accepted: %+v", r)
	}
	s.target = at(400)
	if r := (situation{source: at(520), target: at(400), base: &first.Base, lane: standard(t)}).row(t); !r.Write || !r.Save {
		t.Errorf("the source went on: %+v", r)
	}
}

// Values that were seen on the target do not pile up.
func TestRule_ForgetsWhatHasLanded(t *testing.T) {
	t.Parallel()
	b := Base{Next: 100, At: start}
	for i := range int64(100) {
		now := start.Add(time.Duration(i) * 2 * time.Second)
		b = Base{Next: 101 + i, At: now, Was: b.before(true, 101+i, 100+i, now)}
	}
	if len(b.Was) > rememberLanded+1 || b.Was[len(b.Was)-1].Offset != 199 {
		t.Errorf("%d values, %+v", len(b.Was), b.Was)
	}
}

func TestPlan_RowsOfGroups(t *testing.T) {
	t.Parallel()
	lane := standard(t)
	offsets := map[Key]Committed{{"orders", 1}: {Offset: 510}, {"orders", 0}: {Offset: 510}, {"audit", 5}: {Offset: 510}, {"elsewhere", 0}: {Offset: 3}}
	in := Input{
		Now: start, Rules: usual(),
		Lanes: map[Key]Lane{{"orders", 0}: lane, {"orders", 1}: lane, {"audit", 5}: lane},
		Source: Picture{
			Groups: map[string]Group{
				"b": {Type: TypeClassic, State: "Stable", Offsets: offsets},
				"a": {Type: TypeClassic, State: "Empty", Offsets: map[Key]Committed{{"elsewhere", 0}: {Offset: 3}}},
				"c": {Type: TypeShare, State: "Stable"},
				"d": {Type: TypeStreams, State: "Stable"},
			},
			Failed: map[string]error{"f": errAway},
		},
		Bases: map[string]map[Key]Base{"e": {{"orders", 1}: *base(1, 0), {"gone", 0}: *base(1, 1)}},
	}
	in.Rules.DstGroup = func(g string) string { return "dr." + g }
	type line struct {
		group, dst string
		key        Key
		state      State
	}
	var got []line
	for _, r := range Plan(in) {
		got = append(got, line{r.Group, r.DstGroup, r.Key, r.State})
	}
	want := []line{
		{"a", "dr.a", Key{}, StateNoMirroredTopics},
		{"b", "dr.b", Key{"audit", 5}, StatePending}, {"b", "dr.b", Key{"orders", 0}, StatePending}, {"b", "dr.b", Key{"orders", 1}, StatePending},
		{"c", "dr.c", Key{}, StateUnsupportedType},
		{"d", "dr.d", Key{}, StateUnsupportedType},
		{"e", "dr.e", Key{"orders", 1}, StateSuspectSource},
		{"f", "dr.f", Key{}, StateSourceUnreadable},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Error(diff)
	}
}

func TestPlan_RenamedTopicAndGroup(t *testing.T) {
	t.Parallel()
	in := Input{
		Now: start, Rules: usual(), Lanes: map[Key]Lane{orders: standard(t).with(func(l *Lane) { l.DstTopic = "staging.orders" })},
		Source: Picture{Groups: map[string]Group{"billing": group(510)}},
		Target: Picture{Groups: map[string]Group{
			"billing":    {Type: TypeClassic, State: "Stable"},
			"dr.billing": {Type: TypeClassic, State: "Empty", Offsets: map[Key]Committed{{"staging.orders", 0}: {Offset: 500}, orders: {Offset: 7}}},
		}},
	}
	in.Rules.DstGroup = func(g string) string { return "dr." + g }
	if r := Plan(in)[0]; r.State != StateSynced || r.Target != 500 || r.DstTopic != "staging.orders" || r.DstGroup != "dr.billing" {
		t.Errorf("%+v", r)
	}
}

func TestPlan_IsPure(t *testing.T) {
	t.Parallel()
	s := situation{source: at(510), target: at(380), base: base(410, 400), lane: standard(t)}
	first := s.plan(t)
	for range 3 {
		if diff := cmp.Diff(first, s.plan(t)); diff != "" {
			t.Fatal(diff)
		}
	}
}
