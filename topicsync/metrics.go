package topicsync

import (
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/topicsync/drift"
)

// LinkTopics are one link's topics, and what is kept of them, for the metrics.
type LinkTopics struct {
	Link   string
	Topics []TopicStatus
	Report Report
}

// Collector reads the figures of topics when they are scraped. It has no series of single topics.
type Collector struct {
	links                        func() []LinkTopics
	topics, items, condition, at *prometheus.Desc
	took                         *prometheus.Desc
}

// NewCollector returns a collector over the links that there are when it is asked.
func NewCollector(links func() []LinkTopics) *Collector {
	return &Collector{
		links:  links,
		topics: prometheus.NewDesc("lockstep_topics", "Topics of the source by state, also those that are not selected.", []string{"link", "state"}, nil),
		items: prometheus.NewDesc("lockstep_topic_items", "Settings, permissions and the like that differ between the sides, by state.",
			[]string{"link", "kind", "state"}, nil),
		condition: prometheus.NewDesc("lockstep_topic_kind_condition", "1 for the condition that things of the kind are in.",
			[]string{"link", "kind", "condition"}, nil),
		at:   prometheus.NewDesc("lockstep_topic_pass_timestamp_seconds", "When settings, permissions and the like were last compared.", []string{"link"}, nil),
		took: prometheus.NewDesc("lockstep_topic_pass_seconds", "How long that took.", []string{"link"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.topics, c.items, c.condition, c.at, c.took} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, l := range c.links() {
		states := make(map[TopicState]int)
		for _, t := range l.Topics {
			states[t.State]++
		}
		for s, n := range states {
			gauge(c.topics, float64(n), l.Link, string(s))
		}
		for kind, o := range l.Report.Outcomes {
			gauge(c.condition, 1, l.Link, string(kind), string(o.Condition))
		}
		items := make(map[[2]string]int)
		for _, i := range l.Report.Items() {
			if i.State != drift.InSync {
				items[[2]string{string(i.Kind), string(i.State)}]++
			}
		}
		for k, n := range items {
			gauge(c.items, float64(n), l.Link, k[0], k[1])
		}
		if !l.Report.At.IsZero() {
			gauge(c.at, float64(l.Report.At.UnixMilli())/1000, l.Link)
			gauge(c.took, l.Report.Took.Seconds(), l.Link)
		}
	}
}
