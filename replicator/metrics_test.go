package replicator

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/model"
)

// A link that is held as a whole shows in the metrics, also when it has no lanes.
func TestCollector_ShowsWhatHoldsALink(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(true, func() []LinkStatus {
		return []LinkStatus{{Link: "works"}, {Link: "held", Reason: model.ReasonSuperseded}}
	}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != "lockstep_link_held" {
			continue
		}
		for _, m := range f.GetMetric() {
			name := ""
			for _, l := range m.GetLabel() {
				name += l.GetValue() + " "
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	if len(got) != 2 || got["works  "] != 0 || got["held superseded "] != 1 {
		t.Errorf("lockstep_link_held is %v", got)
	}
}

// A lane whose source does not tell its end has no lag, which is not a lag of 0: not as a series, and not in a sum.
func TestCollector_UnknownLagIsNotZero(t *testing.T) {
	t.Parallel()
	deaf := model.LaneStatus{Lane: model.Lane{Topic: "deaf"}, State: model.StateRetrying, SrcStart: -1, SrcStable: -1, SrcEnd: -1, Readable: -1}
	hears := model.LaneStatus{Lane: model.Lane{Topic: "hears"}, State: model.StateCopying, SrcStable: 9, SrcEnd: 9, Readable: 9}
	gone := model.LaneStatus{Lane: model.Lane{Topic: "gone"}, State: model.StateClosed, SrcStart: -1, SrcStable: -1, SrcEnd: -1, Readable: -1}
	for name, c := range map[string]struct {
		perLane bool
		lanes   []model.LaneStatus
		lags    []float64
		unknown float64
	}{
		"by lane":      {true, []model.LaneStatus{deaf, hears, gone}, []float64{9}, 1},
		"by link":      {false, []model.LaneStatus{deaf, hears, gone}, []float64{9}, 1},
		"none by link": {false, []model.LaneStatus{deaf}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewRegistry()
			reg.MustRegister(NewCollector(c.perLane, func() []LinkStatus { return []LinkStatus{{Link: "dr", Lanes: c.lanes}} }))
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var lags []float64
			unknown := -1.0
			for _, f := range families {
				for _, m := range f.GetMetric() {
					switch f.GetName() {
					case "lockstep_lane_lag_records":
						lags = append(lags, m.GetGauge().GetValue())
					case "lockstep_lanes_lag_unknown":
						unknown = m.GetGauge().GetValue()
					}
				}
			}
			if !slices.Equal(lags, c.lags) || unknown != c.unknown {
				t.Errorf("lags %v, %v unknown; want %v, %v", lags, unknown, c.lags, c.unknown)
			}
		})
	}
}
