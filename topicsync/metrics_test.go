package topicsync

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/topicsync/drift"
)

func TestCollector_CountsByState(t *testing.T) {
	t.Parallel()
	report := Report{At: time.UnixMilli(1_500), Took: 250 * time.Millisecond, Outcomes: map[drift.Kind]drift.Outcome{
		drift.Config: {Condition: drift.OK, Items: []drift.Item{
			{Kind: drift.Config, Topic: "a", Name: "x", State: drift.Kept}, {Kind: drift.Config, Topic: "b", Name: "x", State: drift.Kept},
			{Kind: drift.Config, Topic: "b", Name: "y", State: drift.InSync},
		}},
		drift.ACL: {Condition: drift.NotApplicable},
	}}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewCollector(func() []LinkTopics {
		return []LinkTopics{
			{Link: "dr", Topics: []TopicStatus{{State: TopicCopied}, {State: TopicCopied}, {State: TopicFailed}}, Report: report},
			{Link: "young"},
		}
	}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			series := f.GetName()
			for _, name := range slices.Sorted(maps.Keys(labels)) {
				series += " " + name + "=" + labels[name]
			}
			got[strings.TrimPrefix(series, "lockstep_")] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"topic_items kind=configs link=dr state=kept":                     2,
		"topic_kind_condition condition=not_applicable kind=acls link=dr": 1,
		"topic_kind_condition condition=ok kind=configs link=dr":          1,
		"topic_pass_seconds link=dr":                                      0.25,
		"topic_pass_timestamp_seconds link=dr":                            1.5,
		"topics link=dr state=copied":                                     2,
		"topics link=dr state=failed":                                     1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("series: -want +got\n%s", d)
	}
}
