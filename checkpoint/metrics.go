package checkpoint

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// LinkGroups are one link's groups for the metrics.
type LinkGroups struct {
	Link string
	Pass Pass
	Ages Ages // nil: no seconds
	// Alarms are those that are raised, of all groups.
	Alarms []Alarm
}

// Collector reads the groups' figures when they are scraped. There is one series of each kind for a group, whatever the
// number of its partitions.
type Collector struct {
	links                            func() []LinkGroups
	records, seconds, state, age, of *prometheus.Desc
	alarm, alarms                    *prometheus.Desc
}

// NewCollector returns a collector over the links that there are when it is asked.
func NewCollector(links func() []LinkGroups) *Collector {
	labels := []string{"link", "group"}
	return &Collector{
		links: links,
		records: prometheus.NewDesc("lockstep_group_lag_records",
			"Source offsets that are readable and that the group has not read on the source.", labels, nil),
		seconds: prometheus.NewDesc("lockstep_group_lag_seconds", "How long the oldest of them has been readable.", labels, nil),
		state:   prometheus.NewDesc("lockstep_group_state", "1 for the state that the group is in on the target.", []string{"link", "group", "state"}, nil),
		age: prometheus.NewDesc("lockstep_group_checkpoint_age_seconds",
			"Time since the group's positions were last read on the source, which is how old what stands on the target may be.", labels, nil),
		alarm: prometheus.NewDesc("lockstep_group_alarm", "1 while the alarm is raised; no series else.",
			[]string{"link", "group", "alarm", "severity"}, nil),
		alarms: prometheus.NewDesc("lockstep_group_alarms", "Alarms of groups that are raised.", []string{"link", "severity"}, nil),
		of:     prometheus.NewDesc("lockstep_groups", "Groups of the source by state, also those that are left out.", []string{"link", "state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.records, c.seconds, c.state, c.age, c.of, c.alarm, c.alarms} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		for i := range labels {
			labels[i] = label(labels[i])
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, l := range c.links() {
		counts := make(map[State]int)
		for _, s := range l.Pass.Summaries(l.Ages) {
			counts[s.State]++
			if !s.Shown() {
				continue
			}
			gauge(c.state, 1, l.Link, s.Group, string(s.State))
			gauge(c.age, now.Sub(s.Read).Seconds(), l.Link, s.Group)
			if s.LagRecords >= 0 { // unknown is no figure
				gauge(c.records, float64(s.LagRecords), l.Link, s.Group)
			}
			if s.LagSeconds >= 0 {
				gauge(c.seconds, s.LagSeconds, l.Link, s.Group)
			}
		}
		raised := map[Severity]int{Warning: 0, Critical: 0}
		for _, a := range l.Alarms {
			raised[a.Severity]++
			gauge(c.alarm, 1, l.Link, a.Group, string(a.Kind), string(a.Severity))
		}
		for severity, n := range raised {
			gauge(c.alarms, float64(n), l.Link, string(severity))
		}
		for state, n := range counts {
			gauge(c.of, float64(n), l.Link, string(state))
		}
	}
}

// label returns a text as metrics can hold it. Group names come from clients: one that is no UTF-8 is quoted, so that it
// stays another one than all others.
func label(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}
