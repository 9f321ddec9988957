package checkpoint

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Group names come from clients, and not every broker demands UTF-8 of them. A scrape gets all series nonetheless.
func TestCollector_AnyName(t *testing.T) {
	t.Parallel()
	names := []string{"", "a\nb/ü", "bad\xff", "bad\xfe"}
	var rows []Row
	var alarms []Alarm
	for _, n := range names {
		rows = append(rows, Row{Group: n, DstGroup: n, Key: orders, State: StateSynced})
		alarms = append(alarms, Alarm{Group: n, Kind: AlarmLag, Severity: Warning})
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewCollector(func() []LinkGroups { return []LinkGroups{{Link: "dr", Pass: Pass{Rows: rows}, Alarms: alarms}} }))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	if got["lockstep_group_state"] != len(names) || got["lockstep_group_alarm"] != len(names) {
		t.Errorf("series: %v", got)
	}
}
