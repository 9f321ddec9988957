package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/model"
)

// watch drives alarms with one group, g, by a clock of its own: a pass every ten seconds.
type watch struct {
	t      *testing.T
	alarms *Alarms
	now    time.Time
	rows   []Row
	lanes  map[Key]Lane
	stale  map[string]time.Time
}

// watching has a group with a position in each partition of one topic.
func watching(t *testing.T, partitions int) *watch {
	t.Helper()
	w := &watch{t: t, alarms: NewAlarms(), now: time.Unix(1_000_000, 0), lanes: make(map[Key]Lane)}
	for p := range partitions {
		k := Key{Topic: "orders", Partition: int32(p)}
		w.rows = append(w.rows, Row{Group: "g", Key: k, State: StateSynced})
		w.lanes[k] = Lane{}
	}
	return w
}

// at sets one position and what can be read in its partition.
func (w *watch) at(partition int, source, readable int64) {
	r := &w.rows[partition]
	r.Source = source
	l := w.lanes[r.Key]
	l.Readable = readable
	w.lanes[r.Key] = l
}

func (w *watch) pass() {
	w.alarms.Passed(Pass{At: w.now, Rows: slices.Clone(w.rows), Lanes: w.lanes, Stale: w.stale})
}

// last lets time pass; change, if there is one, is told how much of it has passed before each look.
func (w *watch) last(d time.Duration, change func(since time.Duration)) {
	const each = 10 * time.Second
	for at := time.Duration(0); at < d; at += each {
		w.now = w.now.Add(each)
		if change != nil {
			change(at + each)
		}
		w.pass()
	}
}

// until lets time pass until the group has an alarm, and returns how long that took.
func (w *watch) until(change func(since time.Duration)) time.Duration {
	w.t.Helper()
	began := w.now
	for w.alarms.Of("g") == nil {
		if w.last(10*time.Second, change); w.now.Sub(began) > time.Hour {
			w.t.Fatal("no alarm in an hour")
		}
	}
	return w.now.Sub(began)
}

// wants the group to have just these alarms, as "kind severity".
func (w *watch) wants(what string, want ...string) {
	w.t.Helper()
	var got []string
	for _, a := range w.alarms.Of("g") {
		got = append(got, string(a.Kind)+" "+string(a.Severity))
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s: %q, want %q\n%+v", what, got, want, w.alarms.All())
	}
}

func TestAlarms_LagBeginsWorsensAndEnds(t *testing.T) {
	t.Parallel()
	w := watching(t, 2)
	moves := func(lag int64) func(time.Duration) { // lag in all, half in each, of a large log; the group commits
		return func(at time.Duration) {
			for p := range 2 {
				w.at(p, 1_000_000_000+int64(at), 1_000_000_000+int64(at)+lag/2)
			}
		}
	}
	w.last(10*time.Minute, moves(10_000))
	w.wants("10,000 records are no alarm yet")
	w.last(time.Minute, moves(12_000))
	w.wants("not before it has lasted a minute")
	w.last(10*time.Second, moves(12_000))
	w.wants("above 10,000 for a minute", "lag warning")
	if a := w.alarms.Of("g")[0]; a.Since != w.now.Add(-time.Minute) || !strings.Contains(a.Detail, "12000 records") {
		t.Errorf("alarm %+v", a)
	}
	w.last(time.Hour, moves(9_000))
	w.wants("a little below does not end it", "lag warning")
	w.last(2*time.Minute, moves(110_000))
	w.wants("ten times", "lag critical")
	w.last(2*time.Minute, moves(70_000))
	w.wants("clearly less", "lag warning")
	w.last(time.Minute, moves(100))
	w.wants("not ended before it has been over for a minute", "lag warning")
	w.last(10*time.Second, moves(100))
	w.wants("over")
}

func TestAlarms_LagAsShareOfTheLog(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	w.lanes[w.rows[0].Key] = Lane{SrcStart: 9_000}
	behind := func(lag int64) func(time.Duration) {
		return func(at time.Duration) { w.at(0, 10_000-lag, 10_000) }
	}
	w.last(3*time.Minute, behind(50))
	w.wants("5 % of 1,000 records")
	w.last(3*time.Minute, behind(60))
	w.wants("6 %", "lag warning")
	w.last(3*time.Minute, behind(600))
	w.wants("60 %", "lag critical")
	w.last(3*time.Minute, behind(0))
	w.wants("caught up")
	w.lanes[w.rows[0].Key] = Lane{SrcStart: 9_980}
	w.last(3*time.Minute, behind(15))
	w.wants("15 of 20 records are too few to mean anything")
}

// A consumer that commits now and then is far behind right before it, however healthy it is.
func TestAlarms_BetweenCommitsIsNoLag(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	end := int64(1_000_000)
	w.last(time.Hour, func(at time.Duration) {
		end += 20_000
		if at%(30*time.Second) == 0 {
			w.at(0, end, end)
		} else {
			w.at(0, w.rows[0].Source, end)
		}
		if a := w.alarms.All(); len(a) > 0 {
			t.Fatalf("after %v: %+v", at, a)
		}
	})
}

func TestAlarms_RisingBeginsWorsensAndEnds(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	lag, end := int64(100), int64(100_000_000)
	by := func(more int64) func(time.Duration) { // each look
		return func(time.Duration) {
			lag += more
			end += 1000
			w.at(0, end-lag, end)
		}
	}
	if took := w.until(by(1)); took != 4*time.Minute+10*time.Second { // one minute to rise from, and three that rose
		t.Errorf("it began after %v", took)
	}
	w.wants("three rises", "rising warning")
	if a := w.alarms.Of("g")[0]; !strings.Contains(a.Detail, "3 times in a row") {
		t.Errorf("alarm %+v", a)
	}
	w.last(2*time.Minute, by(1))
	w.wants("two more", "rising critical")
	w.last(70*time.Second, by(0))
	w.wants("one period without a rise does not end it", "rising critical")
	w.last(2*time.Minute, by(0))
	w.wants("two do")
}

func TestAlarms_RisingNeverWhereLagWasZero(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	end := int64(1_000_000)
	w.last(time.Hour, func(at time.Duration) { // the worst of each minute rises, and once in each it has caught up
		end += 1000
		lag := int64(at / time.Second)
		if at%time.Minute == 0 {
			lag = 0
		}
		w.at(0, end-lag, end)
		if a := w.alarms.All(); len(a) > 0 {
			t.Fatalf("after %v: %+v", at, a)
		}
	})
	rise := func(at time.Duration) { end += 1000; w.at(0, end-100-int64(at/time.Second), end) }
	w.last(5*time.Minute, rise)
	w.wants("it rises", "rising warning")
	w.last(2*time.Minute, func(time.Duration) { end += 1000; w.at(0, end, end) })
	w.wants("it caught up")
	lag := int64(1000)
	if took := w.until(func(time.Duration) { end, lag = end+1000, lag+1; w.at(0, end-lag, end) }); took < 4*time.Minute+10*time.Second {
		t.Errorf("it began again after %v, with a 0 among the minutes that rose", took)
	}
}

// What lag reaches between two commits may rise, as long as the commits keep up.
func TestAlarms_RisingLooksAtTheLeastLag(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	end := int64(100_000_000)
	w.last(time.Hour, func(at time.Duration) {
		end += 1000
		lag := 100 + int64(at/time.Second)
		if at%time.Minute == 40*time.Second {
			lag = 100
		}
		w.at(0, end-lag, end)
		if a := w.alarms.All(); len(a) > 0 {
			t.Fatalf("after %v: %+v", at, a)
		}
	})
}

func TestAlarms_RisingBelowTheFloor(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	end := int64(1_000_000)
	w.last(7*time.Minute, func(at time.Duration) { end += 1000; w.at(0, end-1-int64(at/(10*time.Second)), end) })
	w.wants("from 1 to 43 records")
}

func TestAlarms_StalledBeginsWorsensAndEnds(t *testing.T) {
	t.Parallel()
	w := watching(t, 2)
	end := int64(1000)
	w.at(0, 1000, 1000)
	w.last(time.Hour, func(time.Duration) { w.at(1, 1000, 1000) })
	w.wants("nothing comes in, nothing is behind")
	comes := func(time.Duration) {
		end++
		w.at(0, end, end)
		w.at(1, 1000, end)
	}
	w.last(stalledWarn-10*time.Second, comes)
	w.wants("an idle hour before it does not count")
	w.last(20*time.Second, comes)
	w.wants("one of two stands still", "stalled warning")
	if a := w.alarms.Of("g")[0]; a.Topic != "orders" || !strings.Contains(a.Detail, "orders/1 stands at 1000 for 5m") || !strings.Contains(a.Detail, "(1 such position)") {
		t.Errorf("alarm %+v", a)
	}
	w.last(10*time.Minute, comes)
	w.wants("for a quarter of an hour", "rising critical", "stalled critical")
	w.last(70*time.Second, func(at time.Duration) { end++; w.at(1, end, end) })
	w.wants("it moves")
}

func TestAlarms_StalledNeverWithoutNewRecords(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	w.at(0, 500, 540)
	w.last(time.Hour, nil)
	w.wants("a group that was left behind, in a topic that nobody writes")
}

func TestAlarms_SkewBeginsWorsensAndEnds(t *testing.T) {
	t.Parallel()
	w := watching(t, 3)
	end := int64(10_000_000)
	lags := func(ls ...int64) func(time.Duration) {
		return func(time.Duration) {
			end += 100_000
			for p, l := range ls {
				w.at(p, end-l, end)
			}
		}
	}
	w.last(5*time.Minute, lags(900, 0, 0))
	w.wants("below 1,000 records")
	w.last(5*time.Minute, lags(2900, 300, 300))
	w.wants("less than ten times the others")
	w.last(time.Minute, lags(2900, 100, 0))
	w.wants("not before it has lasted a minute")
	w.last(10*time.Second, lags(2900, 100, 0))
	w.wants("far above the others", "skew warning")
	if a := w.alarms.Of("g")[0]; a.Topic != "orders" || !strings.Contains(a.Detail, "orders/0 is 2900 records behind, the median of the topic's other partitions is 100") {
		t.Errorf("alarm %+v", a)
	}
	w.last(5*time.Minute, lags(950, 0, 0))
	w.wants("a little below does not end it", "skew warning")
	w.last(2*time.Minute, lags(10_001, 0, 0))
	w.wants("ten times", "lag warning", "skew critical")
	w.last(2*time.Minute, lags(700, 700, 700))
	w.wants("even again")
	one := watching(t, 1)
	one.last(5*time.Minute, func(time.Duration) { end += 1000; one.at(0, end-5000, end) })
	one.wants("one partition has no others")
}

// A figure that crosses its bounds at every look raises one alarm and keeps it, or none.
func TestAlarms_DoNotFlap(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	lag, changes, last := int64(0), 0, 0
	crossing := func(high, low int64) {
		w.last(time.Hour, func(at time.Duration) {
			if lag = high; at%(20*time.Second) == 0 {
				lag = low
			}
			w.at(0, 1_000_000_000+int64(at), 1_000_000_000+int64(at)+lag)
			if n := len(w.alarms.Of("g")); n != last {
				changes, last = changes+1, n
			}
		})
	}
	if crossing(11_000, 7_000); changes != 0 {
		t.Errorf("%d changes of an alarm that should not begin", changes)
	}
	w.last(2*time.Minute, func(at time.Duration) { w.at(0, int64(at), int64(at)+11_000) })
	if crossing(11_000, 7_000); changes != 1 || last != 1 {
		t.Errorf("%d changes of an alarm that should last", changes)
	}
}

// What is not known neither raises an alarm nor ends one.
func TestAlarms_UnknownConcludesNothing(t *testing.T) {
	t.Parallel()
	w := watching(t, 2)
	end := int64(1_000_000)
	w.last(10*time.Minute, func(time.Duration) {
		end += 100
		w.at(0, 900_000, end)
		w.at(1, 900_000, end)
	})
	before := []string{"lag critical", "rising critical", "stalled warning"}
	w.wants("far behind", before...)
	w.last(10*time.Minute, func(time.Duration) { w.at(0, 900_000, -1); w.at(1, 900_000, -1) })
	w.wants("the source tells no end", "lag critical", "rising critical", "stalled warning")
	w.last(10*time.Minute, func(time.Duration) {
		for i := range w.rows {
			w.rows[i].State, w.rows[i].Source = StateSourceUnreadable, -1
		}
	})
	w.wants("the source tells no positions", before...)
	for i := range w.rows {
		w.rows[i].State, w.rows[i].Source = StateNotAuthorized, 900_000
	}
	w.stale = map[string]time.Time{"g": w.now}
	w.last(10*time.Minute, func(time.Duration) { end += 100_000; w.at(0, 900_000, end); w.at(1, 900_000, end) })
	w.wants("where it stood before is not where it stands", before...)
	fresh := watching(t, 1)
	fresh.rows[0].State = StateSourceUnreadable
	fresh.last(time.Hour, func(at time.Duration) { fresh.at(0, -1, int64(at)) })
	fresh.wants("never known")
}

// An hour in which nobody looked is no hour in which it lasted.
func TestAlarms_NobodyLooked(t *testing.T) {
	t.Parallel()
	w := watching(t, 1)
	behind := func(at time.Duration) { w.at(0, 1_000_000_000+int64(at), 1_000_012_000+int64(at)) }
	w.last(30*time.Second, behind)
	w.now = w.now.Add(time.Hour)
	w.last(50*time.Second, behind)
	w.wants("above 10,000 for less than a minute")
	w.last(30*time.Second, behind)
	w.wants("for a minute", "lag warning")
}

func TestAlarms_GroupsThatDropOut(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(w *watch){
		"gone":                  func(w *watch) { w.rows = nil },
		"vanished":              func(w *watch) { w.rows[0].Source, w.rows[0].State = -1, StateSuspectSource },
		"at work on the target": func(w *watch) { w.rows[0].State = StateActiveOnTarget },
		"excluded":              func(w *watch) { w.rows[0].State = StateExcluded },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watching(t, 1)
			w.last(3*time.Minute, func(time.Duration) { w.at(0, 0, 1_000_000) })
			w.wants("far behind", "lag critical")
			leave(w)
			w.last(10*time.Second, nil)
			w.wants("left")
			if n := len(w.alarms.groups); n != 0 {
				t.Errorf("%d groups are remembered", n)
			}
		})
	}
}

func TestAlarms_AllIsWorstFirst(t *testing.T) {
	t.Parallel()
	a := NewAlarms()
	now := time.Unix(1_000_000, 0)
	lanes := map[Key]Lane{{Topic: "t"}: {Readable: 1_000_000_000}}
	for range 20 {
		now = now.Add(10 * time.Second)
		var rows []Row
		for i, lag := range []int64{20_000, 200_000, 0, 30_000} {
			rows = append(rows, Row{Group: fmt.Sprint("g", i), Key: Key{Topic: "t"}, Source: 1_000_000_000 - lag})
		}
		a.Passed(Pass{At: now, Rows: rows, Lanes: lanes})
	}
	var got []string
	for _, al := range a.All() {
		got = append(got, al.Group+" "+string(al.Severity))
	}
	if want := []string{"g1 critical", "g0 warning", "g3 warning"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if a.Of("g9") != nil {
		t.Error("a group that nobody knows has alarms")
	}
}

// fixedAges are the same age for every record.
type fixedAges time.Duration

func (a fixedAges) Age(Key, int64) (time.Duration, bool) { return time.Duration(a), true }

func TestLag_UnknownIsNotZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row     Row
		lane    Lane
		records int64
		age     time.Duration
		known   bool
	}{
		"behind":             {Row{Source: 90}, Lane{Readable: 100}, 10, time.Minute, true},
		"caught up":          {Row{Source: 100}, Lane{Readable: 100}, 0, 0, true},
		"ahead":              {Row{Source: 120}, Lane{Readable: 100}, 0, 0, true},
		"below the log":      {Row{Source: 10}, Lane{SrcStart: 70, Readable: 100}, 30, time.Minute, true},
		"start not known":    {Row{Source: 90}, Lane{SrcStart: -1, Readable: 100}, 10, time.Minute, true},
		"held, same source":  {Row{Source: 90}, Lane{Readable: 100, Held: model.ReasonDiverged}, 10, time.Minute, true},
		"no position":        {Row{Source: -1}, Lane{Readable: 100}, 0, 0, false},
		"end not known":      {Row{Source: 90}, Lane{Readable: -1}, 0, 0, false},
		"other topic":        {Row{Source: 90}, Lane{Readable: 100, Held: model.ReasonRecreated}, 0, 0, false},
		"position not known": {Row{Source: 90, State: StateSourceUnreadable}, Lane{Readable: 100}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records, age, atLeast, known := Lag(c.row, c.lane, fixedAges(time.Minute))
			if records != c.records || age != c.age || known != c.known || atLeast != (c.age > 0) {
				t.Errorf("%d records, %v (at least: %t), known: %t; want %d, %v, %t", records, age, atLeast, known, c.records, c.age, c.known)
			}
		})
	}
}

// 5,000 groups with ten positions each: what a pass may cost is 10 ms.
func BenchmarkAlarms_FiftyThousandPositions(b *testing.B) {
	a := NewAlarms()
	lanes := make(map[Key]Lane)
	var rows []Row
	for g := range 5000 {
		for p := range 10 {
			k := Key{Topic: fmt.Sprint("topic-", g%200), Partition: int32(p)}
			lanes[k] = Lane{Readable: 1_000_000}
			rows = append(rows, Row{Group: fmt.Sprint("group-", g), Key: k, Source: 999_900})
		}
	}
	now := time.Unix(1_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(2 * time.Second)
		a.Passed(Pass{At: now, Rows: rows, Lanes: lanes})
	}
}

// The sum over what is known would look like less lag than there is.
func TestSummary_LagIsNotKnownWhereAPartIsNot(t *testing.T) {
	t.Parallel()
	a, b := Key{Topic: "a"}, Key{Topic: "b"}
	p := Pass{Lanes: map[Key]Lane{a: {Readable: 100}, b: {Readable: 100}},
		Rows: []Row{{Group: "g", Key: a, Source: 100}, {Group: "g", Key: b, Source: 70}}}
	if s, _ := p.Summary("g", fixedAges(time.Minute)); s.LagRecords != 30 || s.LagSeconds != 60 || !s.LagAtLeast {
		t.Errorf("known: %+v", s)
	}
	p.Lanes[b] = Lane{Readable: -1}
	if s, _ := p.Summary("g", fixedAges(time.Minute)); s.LagRecords != -1 || s.LagSeconds != -1 || s.LagAtLeast {
		t.Errorf("one end is not known: %+v", s)
	}
	p.Lanes[b] = Lane{Readable: 100}
	p.Stale = map[string]time.Time{"g": {}}
	if s, _ := p.Summary("g", fixedAges(time.Minute)); s.LagRecords != -1 || s.LagSeconds != -1 {
		t.Errorf("its positions were not read: %+v", s)
	}
}
