package api

import (
	"context"
	"time"

	"lockstep/internal/model"
)

// fakeBackend answers from what it holds; err, when set, is the answer to everything.
type fakeBackend struct {
	links    []Link
	lanes    []Lane
	gaps     []Gap
	groups   []Group
	notReady error
	err      error
	orders   []model.Order // as they came
	left     time.Duration // of the last order's context
}

var since = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newFake() *fakeBackend {
	lanes := []Lane{
		NewLane(model.LaneStatus{
			Lane: model.Lane{Link: "dr", Topic: "orders", Partition: 0}, DstTopic: "orders", State: model.StateCopying, Since: since,
			Term: 7, Opening: 3, Cursor: model.Cursor{Src: 12345, Dst: 12339, Count: 12339},
			SrcStart: 0, SrcStable: 12357, SrcEnd: 12360, Readable: 12357, DstEnd: 12339, Records: 500, Bytes: 64000, LagSeconds: 0.40049,
		}),
		NewLane(model.LaneStatus{
			Lane: model.Lane{Link: "dr", Topic: "orders", Partition: 3}, DstTopic: "orders", State: model.StateStopped,
			Reason: model.ReasonTooLarge, Detail: "record at 17 takes 2000000 bytes, the target accepts 1048588", Since: since,
			Remedy: "lockstep lanes retry dr:orders/3", Term: 7, Opening: 1, Cursor: model.Cursor{Src: 17, Dst: 17, Count: 17},
			SrcStart: -1, SrcStable: -1, SrcEnd: -1, Readable: -1, DstEnd: -1,
		}),
	}
	state, counts, rpo := Summarize(lanes)
	return &fakeBackend{
		lanes: lanes,
		links: []Link{{
			Name: "dr", Source: "primary", Target: "backup", State: state, SafeToFailOver: SafetyUnknown(), RPO: rpo,
			Owner: "c1f0", Term: 7, Seal: "direct", Lanes: counts,
			Groups: Counts{Total: 2, ByState: map[string]int{"synced": 1, "moved_on_target": 1}},
		}},
		groups: newGroups(),
		gaps: []Gap{NewGap(model.Gap{
			Lane: model.Lane{Link: "dr", Topic: "orders", Partition: 0}, From: 100, To: 140, Reason: "gap", At: since,
		})},
	}
}

func (f *fakeBackend) Links(context.Context) ([]Link, error) { return f.links, f.err }

func (f *fakeBackend) Lanes(_ context.Context, link string) ([]Lane, error) {
	if f.err != nil || link == "empty" {
		return nil, f.err
	}
	if _, err := findLink(f.links, link); err != nil {
		return nil, err
	}
	return f.lanes, nil
}

func (f *fakeBackend) Lane(ctx context.Context, link, topic string, partition int32) (LaneDetail, error) {
	lanes, err := f.Lanes(ctx, link)
	if err != nil {
		return LaneDetail{}, err
	}
	for _, l := range lanes {
		if l.Topic == topic && l.Partition == partition {
			return LaneDetail{
				Lane: l, SourceTopicID: "01", TargetTopicID: "02", SourceLeaderEpoch: 5, Count: 12339, Spans: 2, Gaps: f.gaps,
			}, nil
		}
	}
	return LaneDetail{}, NotFound("lockstep lanes list", "link %q has no lane %s/%d", link, topic, partition)
}

func (f *fakeBackend) Groups(_ context.Context, link string) ([]Group, error) {
	if f.err != nil || link == "empty" {
		return nil, f.err
	}
	_, err := findLink(f.links, link)
	return f.groups, err
}

func (f *fakeBackend) Topics(_ context.Context, link string) ([]Topic, error) {
	if f.err != nil || link == "empty" {
		return nil, f.err
	}
	_, err := findLink(f.links, link)
	counts := Counts{Total: 2, ByState: map[string]int{"kept": 1, "opened": 1}}
	return []Topic{
		{Link: "dr", Topic: "__secret", TargetTopic: "__secret", State: TopicSkipped, Detail: "topics.exclude \"__.*\" matches", Since: since, Differs: Counts{ByState: map[string]int{}}},
		{Link: "dr", Topic: "orders", TargetTopic: "orders", State: "copied", Partitions: 6, TargetPartitions: 6, Since: since, Differs: counts},
	}, err
}

func (f *fakeBackend) Diff(_ context.Context, link string, topics []string) (Diff, error) {
	if f.err != nil || link == "empty" {
		return Diff{}, f.err
	}
	if _, err := findLink(f.links, link); err != nil {
		return Diff{}, err
	}
	if len(topics) > 0 && topics[0] != "orders" {
		return Diff{}, NotFound("lockstep topics list shows the topics", "no topic %q of link %q", topics[0], link)
	}
	five, seven := "5", "7"
	return Diff{Kinds: []Kept{{Kind: "acls", Condition: "off", Differs: Counts{ByState: map[string]int{}}}, {Kind: "configs", Condition: "ok", Differs: Counts{Total: 1, ByState: map[string]int{"kept": 1}}}},
		Differences: []Difference{{Link: "dr", Kind: "configs", Topic: "orders", TargetTopic: "orders", Name: "segment.ms", Source: &five, Target: &seven, State: "kept",
			Why: "somebody else set it on the target", Remedy: "lockstep topics sync dr:orders sets it to 5", Side: "target"}}}, nil
}

func (f *fakeBackend) Group(ctx context.Context, link, group string) (GroupDetail, error) {
	groups, err := f.Groups(ctx, link)
	for _, g := range groups {
		if g.Group == group {
			return GroupDetail{Group: g, Positions: positionsOf(g)}, nil
		}
	}
	if err == nil {
		err = NotFound("lockstep groups list", "link %q has no group %q", link, group)
	}
	return GroupDetail{}, err
}

func (f *fakeBackend) GroupHistory(ctx context.Context, link, group string) ([]GroupMoment, error) {
	g, err := f.Group(ctx, link, group)
	if err != nil {
		return nil, err
	}
	return []GroupMoment{{Link: link, Group: group, At: since, Positions: g.Positions}}, nil
}

// newGroups are one group in step, one that was moved, and one that is left out.
func newGroups() []Group {
	age := 1.25
	return []Group{
		{Link: "dr", Group: "billing", TargetGroup: "billing", Type: "classic", State: "synced", SourceState: "Stable", TargetState: "Empty",
			Partitions: Counts{Total: 1, ByState: map[string]int{"synced": 1}}, LagRecords: Known(15), LagSeconds: Seconds(0.75), RecordsAgain: Known(0), AgeSeconds: &age},
		{Link: "dr", Group: "eu/audit #1", TargetGroup: "eu/audit #1", Type: "consumer", State: "moved_on_target", Detail: "lockstep wrote 5, somebody else 9",
			Remedy: "lockstep groups accept 'eu/audit #1' --link dr puts it where it stands on the source", Partitions: Counts{Total: 1, ByState: map[string]int{"moved_on_target": 1}},
			LagRecords: Known(-1), RecordsAgain: Known(0), AgeSeconds: &age},
		{Link: "dr", Group: "console-consumer-1", TargetGroup: "console-consumer-1", State: GroupExcluded, Detail: `groups.exclude "console-consumer-.*" matches`,
			Partitions: Counts{ByState: map[string]int{}}},
	}
}

func positionsOf(g Group) []GroupPosition {
	if g.Aside() {
		return nil
	}
	return []GroupPosition{{Topic: "orders", Partition: 3, TargetTopic: "orders", SourceOffset: Known(12345), TranslatedOffset: Known(12339), TargetOffset: Known(12339),
		Translation: OffsetExact, State: g.State, Detail: g.Detail, Remedy: g.Remedy, LagRecords: g.LagRecords, LagSeconds: g.LagSeconds, RecordsAgain: g.RecordsAgain}}
}

func (f *fakeBackend) Gaps(_ context.Context, link string) ([]Gap, error) {
	if f.err != nil || link == "empty" {
		return nil, f.err
	}
	_, err := findLink(f.links, link)
	return f.gaps, err
}

// Translate knows two lanes' worth of answers: partition 0 is six offsets shifted, every other partition is unknown.
func (f *fakeBackend) Translate(_ context.Context, link string, req TranslateRequest) ([]Offset, error) {
	if f.err != nil {
		return nil, f.err
	}
	out := make([]Offset, 0, len(req.Offsets))
	for _, p := range req.Offsets {
		o := Offset{Link: link, Topic: p.Topic, Partition: p.Partition, TargetTopic: p.Topic, State: OffsetExact}
		src, dst := p.Offset, p.Offset-6
		if req.Reverse {
			src, dst = p.Offset+6, p.Offset
		}
		o.SourceOffset, o.TargetOffset = &src, &dst
		if p.Partition != 0 {
			o.TargetOffset, o.State = nil, OffsetUnknown
		}
		out = append(out, o)
	}
	return out, nil
}

// Order does what is ordered of partition 0 and refuses the rest; topics and the link take whatever they are told.
func (f *fakeBackend) Order(ctx context.Context, link string, o model.Order) (out []model.OrderStep, err error) {
	if f.err != nil {
		return nil, f.err
	}
	if _, err := findLink(f.links, link); err != nil {
		return nil, err
	}
	f.orders = append(f.orders, o)
	if end, ok := ctx.Deadline(); ok {
		f.left = time.Until(end)
	}
	for _, l := range o.Lanes {
		s := model.OrderStep{Subject: model.Lane{Link: link, Topic: l.Topic, Partition: l.Partition}.String(), State: "stopped: too_large",
			Does: "goes on at source offset 17", Leaves: 1, CanUndo: true, Done: !o.DryRun}
		if l.Partition != 0 {
			s.Refused, s.Done = "it copies", false
		}
		out = append(out, s)
	}
	return out, nil
}

func (f *fakeBackend) Ready(context.Context) error { return f.notReady }
