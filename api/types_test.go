package api

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
)

// The documented examples are what people's scripts are written against: they must decode without a field left over,
// and encode to the same again.
func TestTypes_DocumentedExamples(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc string
		v   any
	}{
		"status": {`{"schema":1,"links":[{"name":"dr","source":"primary","target":"backup","state":"copying","safe_to_fail_over":{"answer":"yes","because":[]},` +
			`"rpo":{"records":12,"seconds":0.4},"owner":"c1f0…","term":7,"seal":"direct","lanes":{"total":48,"by_state":{"copying":47,"too_large":1}},` +
			`"groups":{"total":9,"by_state":{"active_on_target":1,"synced":8}},"alarms":{"warning":0,"critical":0}}]}`, new(Status)},
		"offsets": {`{"schema":1,"offsets":[{"link":"dr","topic":"orders","partition":0,"source_offset":12345,"target_topic":"orders","target_offset":12339,"state":"exact"}]}`, new(Offsets)},
		"error":   {`{"schema":1,"error":{"code":"not_found","message":"m","hint":"h"}}`, new(errorAnswer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := json.NewDecoder(strings.NewReader(c.doc))
			d.DisallowUnknownFields()
			if err := d.Decode(c.v); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(c.v)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.doc, string(again)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestNewLane_UnknownIsNull(t *testing.T) {
	t.Parallel()
	l := NewLane(model.LaneStatus{SrcStart: -1, SrcStable: -1, SrcEnd: -1, Readable: -1, DstEnd: -1, LagSeconds: 7})
	for name, p := range map[string]*int64{"start": l.SourceStartOffset, "stable": l.SourceStableOffset, "end": l.SourceEndOffset, "target": l.TargetEndOffset, "lag": l.LagRecords} {
		if p != nil {
			t.Errorf("%s = %d, want null", name, *p)
		}
	}
	if l.LagSeconds != nil {
		t.Errorf("lag_seconds = %v, want null: without an end there is no lag", *l.LagSeconds)
	}
}

func TestNewLane_LagCountsWhatCanBeRead(t *testing.T) {
	t.Parallel()
	l := NewLane(model.LaneStatus{Cursor: model.Cursor{Src: 10}, SrcStable: 12, SrcEnd: 30, Readable: 30})
	if *l.LagRecords != 20 {
		t.Errorf("lag %d records on a read-uncommitted link, want 20", *l.LagRecords)
	}
}

func TestNewLane_LagIsNeverNegative(t *testing.T) {
	t.Parallel()
	l := NewLane(model.LaneStatus{Cursor: model.Cursor{Src: 10}, Readable: 8, LagSeconds: math.NaN()})
	if *l.LagRecords != 0 || l.LagSeconds != nil {
		t.Errorf("lag %d records, %v seconds; want 0 and null", *l.LagRecords, l.LagSeconds)
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	lane := func(s model.State, r model.Reason, lag int64, seconds float64) Lane {
		st := model.LaneStatus{State: s, Reason: r, Readable: lag, LagSeconds: seconds}
		return NewLane(st)
	}
	copying, stopped := lane(model.StateCopying, "", 5, 0.5), lane(model.StateStopped, model.ReasonTooLarge, 7, 2)
	for name, c := range map[string]struct {
		lanes   []Lane
		state   string
		by      map[string]int
		records int64
		seconds float64
		unknown int
	}{
		"no lane":       {nil, LinkStateOpening, map[string]int{}, -1, -1, 0},
		"copying":       {[]Lane{copying, copying}, LinkStateCopying, map[string]int{"copying": 2}, 10, 0.5, 0},
		"one stopped":   {[]Lane{copying, stopped}, LinkStateDegraded, map[string]int{"copying": 1, "too_large": 1}, 12, 2, 0},
		"all stopped":   {[]Lane{stopped, lane(model.StateClosed, "", 9, 9)}, LinkStateStopped, map[string]int{"too_large": 1, "closed": 1}, 7, 2, 0},
		"all paused":    {[]Lane{lane(model.StatePaused, "", 3, 1), lane(model.StateClosed, "", 9, 9)}, LinkStatePaused, map[string]int{"paused": 1, "closed": 1}, 3, 1, 0},
		"one paused":    {[]Lane{copying, lane(model.StatePaused, "", 3, 1)}, LinkStateCopying, map[string]int{"copying": 1, "paused": 1}, 8, 1, 0},
		"one retrying":  {[]Lane{copying, lane(model.StateRetrying, model.ReasonNetwork, 1, 1), lane(model.StateOpening, "", 0, 0)}, LinkStateRetrying, map[string]int{"copying": 1, "retrying": 1, "opening": 1}, 6, 1, 0},
		"one waiting":   {[]Lane{copying, lane(model.StateWaiting, "", -1, 0)}, LinkStateOpening, map[string]int{"copying": 1, "waiting": 1}, 5, 0.5, 1},
		"all closed":    {[]Lane{lane(model.StateClosed, "", 0, 0)}, LinkStateClosed, map[string]int{"closed": 1}, -1, -1, 0},
		"draining":      {[]Lane{copying, lane(model.StateDraining, "", 0, 0)}, LinkStateCopying, map[string]int{"copying": 1, "draining": 1}, 5, 0.5, 0},
		"source silent": {[]Lane{lane(model.StateCopying, "", -1, 3)}, LinkStateCopying, map[string]int{"copying": 1}, -1, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, counts, rpo := Summarize(c.lanes)
			if state != c.state {
				t.Errorf("state %q, want %q", state, c.state)
			}
			if d := cmp.Diff(Counts{Total: len(c.lanes), ByState: c.by}, counts); d != "" {
				t.Error(d)
			}
			records, seconds := int64(-1), -1.0
			if rpo.Records != nil {
				records, seconds = *rpo.Records, *rpo.Seconds
			}
			if records != c.records || seconds != c.seconds || rpo.UnknownLanes != c.unknown {
				t.Errorf("rpo %d records, %v seconds, %d unknown; want %d, %v, %d", records, seconds, rpo.UnknownLanes, c.records, c.seconds, c.unknown)
			}
		})
	}
}
