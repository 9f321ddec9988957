package replicator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/model"
)

// Metrics are the counters of all links of a process.
type Metrics struct {
	delay      *prometheus.HistogramVec
	gapRecords *prometheus.CounterVec
	foreign    *prometheus.CounterVec
	throttle   *prometheus.CounterVec
	lastSave   *prometheus.GaugeVec
	sourceGone *prometheus.CounterVec

	truncations, orphans *prometheus.CounterVec
	openTxn              *prometheus.GaugeVec
	rebuilt              *prometheus.CounterVec
}

// NewMetrics registers the counters.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lockstep_copy_delay_seconds", Help: "Time from a batch's fetch answer to the target's acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"link"}),
		gapRecords: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_gap_records_total", Help: "Source offsets that could not be copied; the ledger has the ranges.",
		}, []string{"link"}),
		foreign: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_foreign_writer_total", Help: "Records that somebody else wrote into a mirror topic.",
		}, []string{"link", "topic"}),
		throttle: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_throttle_seconds_total", Help: "Time that brokers' quotas asked to wait.",
		}, []string{"link", "side"}),
		lastSave: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_state_saved_timestamp_seconds", Help: "When cursors were last stored in the state topic.",
		}, []string{"link"}),
		sourceGone: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_source_topics_gone_total", Help: "Source topics that were copied and are gone; their copies stay.",
		}, []string{"link"}),
		truncations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_source_truncations_total", Help: "Times that a source log took another branch below what had been copied.",
		}, []string{"link"}),
		orphans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_orphaned_records_total", Help: "Records on the target that truncated source logs do not have any more; the ledger has the ranges.",
		}, []string{"link"}),
		openTxn: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_open_transaction_seconds", Help: "Age of the oldest open transaction that holds a source partition's stable offset.",
		}, []string{"link"}),
		rebuilt: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_fetch_clients_rebuilt_total", Help: "Times that a fetch client that brought nothing any more was replaced.",
		}, []string{"link"}),
	}
	reg.MustRegister(m.delay, m.gapRecords, m.foreign, m.throttle, m.lastSave, m.sourceGone, m.truncations, m.orphans, m.openTxn, m.rebuilt)
	return m
}

// Forget drops the series of a link that does not run any more.
func (m *Metrics) Forget(link string) {
	of := prometheus.Labels{"link": link}
	m.delay.DeletePartialMatch(of)
	m.gapRecords.DeletePartialMatch(of)
	m.foreign.DeletePartialMatch(of)
	m.throttle.DeletePartialMatch(of)
	m.lastSave.DeletePartialMatch(of)
}

// landed counts an acknowledged batch.
func (m *Manager) landed(o *outgoing) {
	m.delay.Observe(m.now().Sub(o.fetched).Seconds())
}

// Collector reads the lanes' figures when they are scraped, so that copying pays nothing for them.
type Collector struct {
	links   func() []LinkStatus
	perLane bool
	descs   map[string]*prometheus.Desc
}

// laneFigure is one per-lane metric.
type laneFigure struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*model.LaneStatus) float64
	source     bool // means something only once the source has told its end
}

func laneFigures() []laneFigure {
	g, c := prometheus.GaugeValue, prometheus.CounterValue
	return []laneFigure{
		{"lockstep_lane_source_start_offset", "Start of the source log.", g, func(s *model.LaneStatus) float64 { return float64(s.SrcStart) }, true},
		{"lockstep_lane_source_stable_offset", "Last stable offset of the source.", g, func(s *model.LaneStatus) float64 { return float64(s.SrcStable) }, true},
		{"lockstep_lane_source_end_offset", "End of the source log.", g, func(s *model.LaneStatus) float64 { return float64(s.SrcEnd) }, true},
		{"lockstep_lane_target_end_offset", "End of the target log as far as this process wrote it.", g, func(s *model.LaneStatus) float64 { return float64(s.DstEnd) }, true},
		{"lockstep_lane_lag_records", "Source offsets that are readable and not copied yet.", g, func(s *model.LaneStatus) float64 { return float64(s.LagRecords()) }, true},
		{"lockstep_lane_lag_seconds", "How long the oldest of them has been readable.", g, func(s *model.LaneStatus) float64 { return s.LagSeconds }, true},
		{"lockstep_copied_records_total", "Records copied by this process.", c, func(s *model.LaneStatus) float64 { return float64(s.Records) }, false},
		{"lockstep_copied_bytes_total", "Bytes of batches, as sent, copied by this process.", c, func(s *model.LaneStatus) float64 { return float64(s.Bytes) }, false},
	}
}

// NewCollector returns a collector over the links that there are when it is asked; perLane adds topic and partition labels, else figures are summed, or
// the largest taken where a sum means nothing, by link.
func NewCollector(perLane bool, links func() []LinkStatus) *Collector {
	c := &Collector{links: links, perLane: perLane, descs: make(map[string]*prometheus.Desc)}
	labels := []string{"link"}
	if perLane {
		labels = append(labels, "topic", "partition")
	}
	for _, f := range laneFigures() {
		c.descs[f.name] = prometheus.NewDesc(f.name, f.help, labels, nil)
	}
	c.descs[stateMetric] = prometheus.NewDesc(stateMetric, "Lanes by state.", []string{"link", "state", "reason"}, nil)
	c.descs[heldMetric] = prometheus.NewDesc(heldMetric, "1 while the link stands still as a whole, with the reason.", []string{"link", "reason"}, nil)
	c.descs[unsealedMetric] = prometheus.NewDesc(unsealedMetric, "Lanes whose older term could not be ended yet.", []string{"link"}, nil)
	c.descs[unknownMetric] = prometheus.NewDesc(unknownMetric, "Lanes whose lag is not known, as the source does not tell its ends. Sums leave them out.", []string{"link"}, nil)
	c.descs[formMetric] = prometheus.NewDesc(formMetric, "Batches acknowledged, by the form they were sent in.", []string{"link", "form"}, nil)
	return c
}

const (
	stateMetric = "lockstep_lane_state"
	formMetric  = "lockstep_batches_total"

	heldMetric = "lockstep_link_held"

	unsealedMetric = "lockstep_lanes_unsealed"

	unknownMetric = "lockstep_lanes_lag_unknown"
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.links() {
		c.lanes(ch, s)
		c.states(ch, s)
		c.held(ch, s)
		for form, n := range s.Batches {
			ch <- prometheus.MustNewConstMetric(c.descs[formMetric], prometheus.CounterValue, float64(n), s.Link, form)
		}
	}
}

func (c *Collector) states(ch chan<- prometheus.Metric, s LinkStatus) {
	type key struct {
		state  model.State
		reason model.Reason
	}
	n := make(map[key]int)
	unsealed, unknown := 0, 0
	for i := range s.Lanes {
		n[key{s.Lanes[i].State, s.Lanes[i].Reason}]++
		if s.Lanes[i].Reason == model.ReasonUnsealed {
			unsealed++
		}
		if s.Lanes[i].SrcEnd < 0 && s.Lanes[i].State != model.StateClosed {
			unknown++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.descs[unknownMetric], prometheus.GaugeValue, float64(unknown), s.Link)
	ch <- prometheus.MustNewConstMetric(c.descs[unsealedMetric], prometheus.GaugeValue, float64(unsealed), s.Link)
	for k, v := range n {
		ch <- prometheus.MustNewConstMetric(c.descs[stateMetric], prometheus.GaugeValue, float64(v), s.Link, string(k.state), string(k.reason))
	}
}

// held shows what holds a link as a whole: one that has no lanes yet is in no lane's figure.
func (c *Collector) held(ch chan<- prometheus.Metric, s LinkStatus) {
	v := 0.0
	if s.Reason != model.ReasonNone {
		v = 1
	}
	ch <- prometheus.MustNewConstMetric(c.descs[heldMetric], prometheus.GaugeValue, v, s.Link, string(s.Reason))
}

func (c *Collector) lanes(ch chan<- prometheus.Metric, s LinkStatus) {
	for _, f := range laneFigures() {
		sum, known := 0.0, false
		for i := range s.Lanes {
			l := &s.Lanes[i]
			v := f.value(l)
			if f.source && (l.SrcEnd < 0 || v < 0) {
				continue // unknown is no figure: a missing series, not a lag of 0
			}
			known = true
			if c.perLane {
				ch <- prometheus.MustNewConstMetric(c.descs[f.name], f.kind, v, s.Link, l.Topic, strconv.Itoa(int(l.Partition)))
				continue
			}
			if f.name == "lockstep_lane_lag_seconds" {
				sum = max(sum, v)
			} else {
				sum += max(0, v)
			}
		}
		if !c.perLane && (known || !f.source) {
			ch <- prometheus.MustNewConstMetric(c.descs[f.name], f.kind, sum, s.Link)
		}
	}
}
