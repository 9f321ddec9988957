package offsetsync

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// The files in testdata/golden are what releases have written. They are kept for ever: a reader of today has to read them.
// UPDATE_GOLDEN=1 writes those that are missing.

var goldenTime = time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)

func goldenOpening() Opening {
	return Opening{
		Lane: theLane, N: 4, Nonce: "b1946ac9.7", Prev: "591785b7.2",
		Term: model.Term{N: 9, PID: 4001, Epoch: 3, Owner: "c1f0"},
		Identity: model.Identity{
			DstTopic: "staging.orders", Src: model.TopicID{0x11, 0x22, 15: 0xff}, Dst: model.TopicID{0xaa, 15: 0x01},
		},
		Rules:  0x8000_0000_0000_0001,
		Origin: model.Cursor{Src: 12_345, Dst: 12_340, Count: 0, SrcEpoch: -1},
		Closed: &Closed{
			Cursor:   model.Cursor{Src: 12_345, Dst: 12_340, Count: 5_000_000_000, SrcEpoch: -1},
			Landings: []model.Landing{{Count: 4_999_999_000, Dst: 11_000}, {Count: 4_999_999_990, Dst: 12_329}},
			PlanN:    17, LandN: 3,
		},
	}
}

// goldenEntries are records as a store writes them, by file name.
func goldenEntries(t *testing.T) map[string]statelog.Entry {
	t.Helper()
	log := &memLog{}
	s := newStore(log, log.view(), "b1946ac9")
	ctx := t.Context()
	o := goldenOpening()
	behind := int64(10_003)
	out := map[string]statelog.Entry{
		"opening": s.laneEntry(theLane, openingKey(theLane, kindOpening, openingID{o.N, o.Nonce}), encodeOpening(o)),
		"trim":    s.laneEntry(theLane, openingKey(theLane, kindTrim, openingID{o.N, o.Nonce}), encodeJSON(trimValue{V: recordVersion, PlanN: 900, LandN: 12, Dst: 10_000})),
		"trim_behind": s.laneEntry(theLane, openingKey(theLane, kindTrim, openingID{o.N, o.Nonce}),
			encodeJSON(trimValue{V: recordVersion, PlanN: 900, LandN: 12, Dst: 12_340, Behind: &behind})),
	}
	add := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = log.entries[len(log.entries)-1]
	}
	add("gap", s.Gap(ctx, model.Gap{Lane: theLane, From: 100, To: 250, Reason: "retention", At: goldenTime}))
	s.begin(o)
	add("plan", s.Plan(ctx, map[model.Lane]PlanAdd{theLane: {4, []model.Jump{{Count: 0, Src: 12_350}, {Count: 70, Src: 12_422}, {Count: 1_000_000, Src: 1 << 40}}}}))
	add("cursor", s.Save(ctx, []Progress{{
		Lane: theLane, Opening: 4, Cursor: model.Cursor{Src: 12_400, Dst: 12_391, Count: 50, SrcEpoch: 6},
		Landings: []model.Landing{{Count: 10, Dst: 12_351}}, Clean: true,
	}}))
	out["land"] = log.entries[len(log.entries)-2]
	add("gap_of_opening", s.Gap(ctx, model.Gap{Lane: theLane, From: 100, To: 250, Reason: "retention", At: goldenTime}))
	add("claim", s.PutClaim(ctx, Claim{ID: "9f", Prev: "3a", Owner: "c1f0", Link: "dr", SourceCluster: "src-id", TargetCluster: "dst-id", At: goldenTime}))
	add("claim_released", s.PutClaim(ctx, Claim{ID: "9f", At: goldenTime, Released: true}))
	add("beat", s.PutBeat(ctx, Beat{Claim: "9f", Owner: "c1f0", Node: "n1", Seq: 77, At: goldenTime}))
	add("term", s.PutTerm(ctx, model.Term{N: 9, PID: 4001, Epoch: 3, Owner: "c1f0"}))
	add("stop", s.PutStop(ctx, Stop{ID: "run-1", By: "failover", Reason: "drill on the backup", At: goldenTime}))
	add("stop_lifted", s.PutStop(ctx, Stop{ID: "run-1", At: goldenTime, Lifted: true}))
	add("seal", s.PutSeal(ctx, Seal{Lane: theLane, Term: model.Term{N: 9, PID: 4001, Epoch: 3, Owner: "c1f0"}, DstTopic: "staging.orders", Confirmed: true, Marker: 12_339, LeaderEpoch: 2, Way: "direct", At: goldenTime}))
	return out
}

func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	want, err := os.ReadFile(path)
	if os.IsNotExist(err) && os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		want = got
	} else if err != nil {
		t.Fatal(err)
	}
	return want
}

func TestGolden_RecordsAreWrittenAsBefore(t *testing.T) {
	t.Parallel()
	for name, e := range goldenEntries(t) {
		got := append([]byte(e.Key+"\n"), e.Value...)
		if want := golden(t, name+".v1", got); !bytes.Equal(got, want) {
			t.Errorf("%s is written as\n%q\nwant\n%q", name, got, want)
		}
	}
}

func TestGolden_MapIsWrittenAsBefore(t *testing.T) {
	t.Parallel()
	m := NewMap(8, 1)
	for _, s := range []model.Span{{Src: 10, Dst: 1, N: 500}, {Src: 600, Dst: 502, N: 0}, {Src: 601, Dst: 502, N: 1 << 35}} {
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	got := m.Encode(nil)
	want := golden(t, "map.v1", got)
	if !bytes.Equal(got, want) {
		t.Errorf("written as %x, want %x", got, want)
	}
	d, err := DecodeMap(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spansOf(m), spansOf(d)); diff != "" {
		t.Error(diff)
	}
}

// readGolden returns the record of a golden file.
func readGolden(t *testing.T, name string) statelog.Entry {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden", name+".v1"))
	if err != nil {
		t.Fatal(err)
	}
	key, value, _ := bytes.Cut(b, []byte("\n"))
	return statelog.Entry{Key: string(key), Value: value}
}

func TestGolden_RecordsAreRead(t *testing.T) {
	t.Parallel()
	var es []statelog.Entry
	for _, name := range []string{"opening", "plan", "land", "cursor", "gap", "gap_of_opening", "claim_released", "beat", "term", "stop", "stop_lifted", "seal"} {
		es = append(es, readGolden(t, name))
	}
	v := newView(&memLog{}, "dr")
	v.now = func() time.Time { return goldenTime }
	v.state.claims.valid = []Claim{{ID: "3a"}}
	v.apply(append(es, readGolden(t, "claim")))
	if v.err != nil || len(v.unknown) > 0 {
		t.Fatalf("%v, unknown %v", v.err, v.unknown)
	}
	st, _ := v.Lane(theLane)
	if diff := cmp.Diff(goldenOpening(), st.Opening); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(model.Cursor{Src: 12_400, Dst: 12_391, Count: 50, SrcEpoch: 6}, st.Cursor); diff != "" || !st.Clean || st.Fault != nil {
		t.Error(diff, st.Clean, st.Fault)
	}
	if diff := cmp.Diff([]model.Span{{Src: 12_350, Dst: 12_340, N: 10}, {Src: 12_360, Dst: 12_351, N: 40}}, spansOf(st.Map)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]model.Gap{{Lane: theLane, From: 100, To: 250, Reason: "retention", At: goldenTime}}, v.Gaps()); diff != "" {
		t.Error(diff)
	}
	claim, _ := v.Claim()
	if diff := cmp.Diff(Claim{ID: "9f", Prev: "3a", Owner: "c1f0", Link: "dr", SourceCluster: "src-id", TargetCluster: "dst-id", At: goldenTime, Released: true}, claim); diff != "" {
		t.Error(diff)
	}
	beat, _ := v.LastBeat()
	if diff := cmp.Diff(Beat{Claim: "9f", Owner: "c1f0", Node: "n1", Seq: 77, At: goldenTime, Seen: goldenTime}, beat); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]model.Term{{N: 9, PID: 4001, Epoch: 3, Owner: "c1f0"}}, v.Terms()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Stop{{ID: "run-1", By: "failover", Reason: "drill on the backup", At: goldenTime, Lifted: true}}, v.Stops()); diff != "" {
		t.Error(diff)
	}
	want := []Seal{{Lane: theLane, Term: model.Term{N: 9, PID: 4001, Epoch: 3, Owner: "c1f0"}, DstTopic: "staging.orders", Confirmed: true, Marker: 12_339, LeaderEpoch: 2, Way: "direct", At: goldenTime}}
	if diff := cmp.Diff(want, v.Seals(theLane)); diff != "" {
		t.Error(diff)
	}
}

func TestGolden_TrimIsRead(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]int64{"trim": 12_345, "trim_behind": 10_003} {
		v := replay([]statelog.Entry{readGolden(t, "opening"), readGolden(t, name)})
		l := v.lanes[theLane]
		if o := l.newest(); v.err != nil || o.plan.total != 900 || o.land.total != 12 {
			t.Errorf("%s: %v, %d plan and %d landing entries", name, v.err, o.plan.total, o.land.total)
		}
		if src, _ := l.m.Start(); src != start {
			t.Errorf("%s: the map starts at source offset %d, want %d", name, src, start)
		}
	}
}
