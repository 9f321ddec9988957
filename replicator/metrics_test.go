package replicator

import (
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
