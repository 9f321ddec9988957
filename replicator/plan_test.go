package replicator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

var (
	planLaneID = model.Lane{Link: "dr", Topic: "orders", Partition: 1}
	planIdent  = model.Identity{DstTopic: "orders", Src: model.TopicID{1}, Dst: model.TopicID{2}}
)

// stopAt is a lane that copied source offsets 100 to 149 to target offsets 0 to 49, and stopped for a reason. The source
// holds offsets 20 to 199.
func stopAt(r model.Reason) picture {
	m := offsetsync.NewMap(100, 0)
	if err := m.Append(model.Span{Src: 100, Dst: 0, N: 50}); err != nil {
		panic(err)
	}
	at := model.Cursor{Src: 150, Dst: 50, Count: 50, SrcEpoch: -1}
	return picture{
		lane: planLaneID, state: model.StateStopped, reason: r, cursor: at, now: planIdent, dstID: planIdent.Dst, dstParts: 3,
		found: true, stored: offsetsync.LaneState{Map: m, Cursor: at, Clean: true,
			Opening: offsetsync.Opening{N: 1, Identity: planIdent, Origin: model.Cursor{Src: 100}}},
		src: logEnds{start: 20, end: 200}, dst: logEnds{start: 0, end: 50},
	}
}

// with changes a picture.
func (p picture) with(change func(*picture)) picture {
	change(&p)
	return p
}

// planCase is what an order is expected to plan for a picture.
type planCase struct {
	p       picture
	o       model.Order
	does    string // a part of it
	refused string // a part of it; "" means not refused
	leaves  int64
	deletes int64
}

func checkPlans(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := planLane(c.o, c.p)
			if (s.Refused != "") != (c.refused != "") || !strings.Contains(s.Refused, c.refused) {
				t.Errorf("refused: %q, want %q", s.Refused, c.refused)
			}
			if c.refused == "" && (s.Does == "" || !strings.Contains(s.Does, c.does) || s.Leaves != c.leaves || s.Deletes != c.deletes) {
				t.Errorf("does %q, leaves %d, deletes %d; want %q, %d, %d", s.Does, s.Leaves, s.Deletes, c.does, c.leaves, c.deletes)
			}
			if s.Subject != c.p.lane.String() || s.Done || s.Error != "" {
				t.Errorf("step %+v", s)
			}
		})
	}
}

func TestPlan_Retry(t *testing.T) {
	t.Parallel()
	o := model.Order{Kind: model.OrderRetry}
	gone := func(p *picture) { p.dstGone, p.dst.err = true, kerr.UnknownTopicOrPartition }
	checkPlans(t, map[string]planCase{
		"too large":               {p: stopAt(model.ReasonTooLarge), o: o, does: "source offset 150"},
		"corrupt":                 {p: stopAt(model.ReasonCorrupt), o: o, does: "source offset 150"},
		"gap":                     {p: stopAt(model.ReasonGap).with(func(p *picture) { p.src.start = 180 }), o: o, does: "goes on at source offset 180", leaves: 30},
		"gap that is none":        {p: stopAt(model.ReasonGap), o: o, does: "source offset 150"},
		"gap, source unknown":     {p: stopAt(model.ReasonGap).with(func(p *picture) { p.src.err = kerr.NotLeaderForPartition }), o: o, refused: "not known"},
		"source deleted":          {p: stopAt(model.ReasonSourceDeleted), o: o, refused: "source topic is gone"},
		"superseded":              {p: stopAt(model.ReasonSuperseded), o: o, refused: "another instance"},
		"source replaced":         {p: stopAt(model.ReasonSourceReplaced), o: o, refused: "links accept dr"},
		"target lost and gone":    {p: stopAt(model.ReasonTargetLost).with(gone), o: o, refused: "lanes rebuild dr:orders/1"},
		"target lost, few parts":  {p: stopAt(model.ReasonTargetLost).with(func(p *picture) { p.dstParts = 1 }), o: o, refused: "lanes rebuild"},
		"target lost and back":    {p: stopAt(model.ReasonTargetLost), o: o, does: "looks again"},
		"copying":                 {p: stopAt("").with(func(p *picture) { p.state = model.StateCopying }), o: o, refused: "not stopped"},
		"paused":                  {p: stopAt(model.ReasonTooLarge).with(func(p *picture) { p.held = "paused by me" }), o: o, refused: "paused by me"},
		"never copied, not empty": {p: stopAt(model.ReasonNotEmpty).with(func(p *picture) { p.found = false }), o: o, does: "looks again"},
	})
}

func TestPlan_Skip(t *testing.T) {
	t.Parallel()
	to := func(n int64) model.Order { return model.Order{Kind: model.OrderSkip, To: n} }
	lost := func(p *picture) { p.dst.end = 30 } // 20 copied records are gone
	checkPlans(t, map[string]planCase{
		"one record":                {p: stopAt(model.ReasonTooLarge), o: to(151), does: "goes on at source offset 151", leaves: 1},
		"up to the source's end":    {p: stopAt(model.ReasonCorrupt), o: to(200), leaves: 50},
		"behind the source's end":   {p: stopAt(model.ReasonCorrupt), o: to(201), refused: "ends at offset 200"},
		"before the source's start": {p: stopAt(model.ReasonCorrupt), o: to(19), refused: "starts at offset 20"},
		"where it stands":           {p: stopAt(model.ReasonCorrupt), o: to(150), refused: "lanes retry dr:orders/1"},
		"into what is copied":       {p: stopAt(model.ReasonCorrupt), o: to(149), refused: "below source offset 150, up to target offset 50"},
		"retrying": {p: stopAt(model.ReasonCorrupt).with(func(p *picture) { p.state, p.cursor.Src, p.cursor.Dst = model.StateRetrying, 160, 60 }),
			o: to(161), leaves: 1},
		"retrying, further than stored": {p: stopAt(model.ReasonCorrupt).with(func(p *picture) { p.state, p.cursor.Src, p.cursor.Dst = model.StateRetrying, 160, 60 }),
			o: to(155), refused: "twice"},
		"diverged, where it stands":       {p: stopAt(model.ReasonDiverged), o: to(150)},
		"target lost its end":             {p: stopAt(model.ReasonDiverged).with(lost), o: to(130), does: "behind target offset 30"},
		"target lost its end, further on": {p: stopAt(model.ReasonDiverged).with(lost), o: to(155), leaves: 25},
		"target lost its end, too far":    {p: stopAt(model.ReasonDiverged).with(lost), o: to(129), refused: "may go back to source offset 130"},
		"source truncated": {p: stopAt(model.ReasonSourceTruncated).with(func(p *picture) { p.src.end = 140 }), o: to(140),
			does: "does not have any more", leaves: 10},
		"plan lost":       {p: stopAt(model.ReasonPlanLost), o: to(160), leaves: 10},
		"recreated":       {p: stopAt(model.ReasonRecreated), o: to(160), refused: "topics accept dr:orders"},
		"target lost":     {p: stopAt(model.ReasonTargetLost), o: to(160), refused: "lanes rebuild"},
		"source deleted":  {p: stopAt(model.ReasonSourceDeleted), o: to(160), refused: "gone"},
		"copying":         {p: stopAt("").with(func(p *picture) { p.state = model.StateCopying }), o: to(160), refused: "not stopped"},
		"never copied":    {p: stopAt(model.ReasonInternal).with(func(p *picture) { p.found = false }), o: to(160), refused: "ever copied"},
		"stored at odds":  {p: stopAt(model.ReasonDiverged).with(func(p *picture) { p.stored.Fault = errors.New("7 of 8") }), o: to(160), refused: "7 of 8"},
		"target unknown":  {p: stopAt(model.ReasonCorrupt).with(func(p *picture) { p.dst.err = kerr.NotLeaderForPartition }), o: to(160), refused: "target's log"},
		"source unknown":  {p: stopAt(model.ReasonCorrupt).with(func(p *picture) { p.src.err = kerr.NotLeaderForPartition }), o: to(160), refused: "source's log"},
		"link is paused":  {p: stopAt(model.ReasonCorrupt).with(func(p *picture) { p.held = "paused" }), o: to(160), refused: "resume"},
		"source replaced": {p: stopAt(model.ReasonSourceReplaced), o: to(160), refused: "links accept"},
	})
}

func TestPlan_Rebuild(t *testing.T) {
	t.Parallel()
	o := model.Order{Kind: model.OrderRebuild}
	gone := func(p *picture) {
		p.dstGone, p.dst, p.dstID = true, logEnds{err: kerr.UnknownTopicOrPartition}, model.TopicID{}
	}
	other := func(p *picture) { p.dstID = model.TopicID{9} }
	checkPlans(t, map[string]planCase{
		"diverged":               {p: stopAt(model.ReasonDiverged), o: o, does: "deletes target offsets 0 to 49, and copies anew from source offset 20", deletes: 50},
		"source's start is lost": {p: stopAt(model.ReasonPlanLost).with(func(p *picture) { p.src.start = 120 }), o: o, leaves: 20, deletes: 50},
		"… and the target's start too": {p: stopAt(model.ReasonPlanLost).with(func(p *picture) { p.src.start, p.dst.start = 120, 15 }), o: o,
			leaves: 5, deletes: 35},
		"target gone":           {p: stopAt(model.ReasonTargetLost).with(gone), o: o, does: "made again"},
		"target gone, and more": {p: stopAt(model.ReasonTargetLost).with(gone).with(func(p *picture) { p.src.start = 120 }), o: o, does: "made again", leaves: 20},
		"target made by others": {p: stopAt(model.ReasonTargetLost).with(other), o: o, does: "deletes target offsets 0 to 49", deletes: 50},
		"… and empty":           {p: stopAt(model.ReasonTargetLost).with(other).with(func(p *picture) { p.dst.end = 0 }), o: o, does: "into the empty"},
		"… and smaller":         {p: stopAt(model.ReasonTargetLost).with(other).with(func(p *picture) { p.dstParts, p.dst.err = 1, errNoPartition }), o: o, does: "grow"},
		"compacted only":        {p: stopAt(model.ReasonDiverged).with(func(p *picture) { p.denied = fmt.Errorf("x: %w", kerr.PolicyViolation) }), o: o, refused: "delete the topic"},
		"not allowed":           {p: stopAt(model.ReasonDiverged).with(func(p *picture) { p.denied = kerr.TopicAuthorizationFailed }), o: o, refused: "cannot be deleted"},
		"compacted only, empty": {p: stopAt(model.ReasonPlanLost).with(func(p *picture) { p.dst.start = 50 }), o: o, does: "copies anew"},
		"recreated":             {p: stopAt(model.ReasonRecreated), o: o, refused: "topics accept"},
		"not empty":             {p: stopAt(model.ReasonNotEmpty), o: o, refused: "topics adopt"},
		"other link":            {p: stopAt(model.ReasonOtherLink), o: o, refused: "topics.exclude"},
		"source deleted":        {p: stopAt(model.ReasonSourceDeleted), o: o, refused: "keeps its copy"},
		"copying":               {p: stopAt("").with(func(p *picture) { p.state = model.StateCopying }), o: o, refused: "not stopped"},
		"source unknown":        {p: stopAt(model.ReasonDiverged).with(func(p *picture) { p.src.err = kerr.NotLeaderForPartition }), o: o, refused: "not known"},
	})
}

func TestPlan_AcceptAndAdopt(t *testing.T) {
	t.Parallel()
	accept, adopt := model.Order{Kind: model.OrderAccept}, model.Order{Kind: model.OrderAdopt}
	fresh := func(p *picture) { p.found, p.from = false, 20 }
	checkPlans(t, map[string]planCase{
		"recreated":            {p: stopAt(model.ReasonRecreated), o: accept, does: "behind offset 150 is unknown"},
		"recreated, smaller":   {p: stopAt(model.ReasonRecreated).with(func(p *picture) { p.src.err = errNoPartition }), o: accept, does: "no such partition"},
		"target recreated too": {p: stopAt(model.ReasonRecreated).with(func(p *picture) { p.dstID = model.TopicID{9} }), o: accept, refused: "lanes rebuild"},
		"not recreated":        {p: stopAt(model.ReasonTooLarge), o: accept, refused: "not stopped as recreated"},
		"not empty":            {p: stopAt(model.ReasonNotEmpty).with(fresh), o: adopt, does: "copies from source offset 20, behind target offset 50"},
		"another link's":       {p: stopAt(model.ReasonOtherLink).with(fresh), o: adopt, refused: "another link"},
		"not stopped for that": {p: stopAt(model.ReasonDiverged), o: adopt, refused: "not_empty"},
		"copied before":        {p: stopAt(model.ReasonNotEmpty), o: adopt, refused: "copied before"},
	})
}

func TestPlan_Pause(t *testing.T) {
	t.Parallel()
	held := &model.Pause{By: "anna", Reason: "maintenance"}
	pause, resume := model.Order{Kind: model.OrderPause}, model.Order{Kind: model.OrderResume}
	for name, c := range map[string]struct {
		o       model.Order
		held    *model.Pause
		lanes   int
		refused bool
		does    string
	}{
		"pause":                     {o: pause, lanes: 3, does: "ends 3 lanes"},
		"pause twice":               {o: pause, held: held, does: "paused already"},
		"pause what comes in":       {o: pause, held: held, lanes: 1, does: "ends 1 lane "},
		"resume below a pause":      {o: resume, held: held, does: "lifts the pause"},
		"resume":                    {o: resume, held: held, lanes: 3, does: "opens 3 lanes"},
		"resume what is not paused": {o: resume, refused: true},
		"finish a resume":           {o: resume, lanes: 1, does: "opens 1 lane "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := planPause(c.o, "dr", c.held, c.lanes)
			if (s.Refused != "") != c.refused || !strings.Contains(s.Does, c.does) || c.held != nil && !strings.Contains(s.State, "anna: maintenance") {
				t.Errorf("step %+v", s)
			}
		})
	}
}

func TestCertain_TargetLostItsEnd(t *testing.T) {
	t.Parallel()
	p := stopAt(model.ReasonDiverged)
	for end, want := range map[int64]model.Cursor{
		50: {Src: 150, Dst: 50, Count: 50, SrcEpoch: -1},
		30: {Src: 130, Dst: 30, Count: 30, SrcEpoch: -1},
		0:  {Src: 100, Dst: 0, Count: 0, SrcEpoch: -1},
	} {
		if got := certain(p.stored, end); got != want {
			t.Errorf("end %d: %+v, want %+v", end, got, want)
		}
	}
	p.stored.Opening.Origin = model.Cursor{Src: 140, Dst: 40, Count: 0} // the newest opening is young, and goes altogether
	p.stored.Cursor.Count = 10
	if got := certain(p.stored, 30); got.Count != 0 || got.Src != 130 || got.Dst != 30 {
		t.Errorf("before the newest opening: %+v", got)
	}
}

func TestIntent_Repositions(t *testing.T) {
	t.Parallel()
	st := stopAt("").stored
	st.Opening.Term = model.Term{N: 3, Owner: "me"}
	entryOf := func(change func(*entry)) *entry {
		e := &entry{found: true, ident: planIdent, state: st, end: 50}
		change(e)
		return e
	}
	same := func(*entry) {}
	unclean := func(e *entry) { e.end = 51 }
	newSrc := func(e *entry) { e.ident.Src = model.TopicID{9} }
	newDst := func(e *entry) { e.ident.Dst = model.TopicID{9} }
	for name, c := range map[string]struct {
		it   *intent
		e    *entry
		want bool
	}{
		"none":                     {nil, entryOf(same), false},
		"clean skip":               {&intent{kind: model.OrderSkip, to: 160, opening: 1}, entryOf(same), false},
		"unclean skip":             {&intent{kind: model.OrderSkip, to: 160, opening: 1}, entryOf(unclean), true},
		"skip back":                {&intent{kind: model.OrderSkip, to: 140, opening: 1}, entryOf(same), true},
		"skip that was taken":      {&intent{kind: model.OrderSkip, to: 160, opening: 0}, entryOf(unclean), false},
		"skip into another topic":  {&intent{kind: model.OrderSkip, to: 160, opening: 1}, entryOf(newSrc), false},
		"retry":                    {&intent{kind: model.OrderRetry, opening: 1}, entryOf(unclean), false},
		"retry behind a gap":       {&intent{kind: model.OrderRetry, behindGap: true, opening: 1}, entryOf(unclean), true},
		"clean retry behind a gap": {&intent{kind: model.OrderRetry, behindGap: true, opening: 1}, entryOf(same), false},
		"rebuild":                  {&intent{kind: model.OrderRebuild, opening: 1}, entryOf(newDst), true},
		"rebuild that was taken":   {&intent{kind: model.OrderRebuild, opening: 0}, entryOf(same), false},
		"accept":                   {&intent{kind: model.OrderAccept, opening: 1}, entryOf(newSrc), true},
		"accept, target other too": {&intent{kind: model.OrderAccept, opening: 1}, entryOf(func(e *entry) { newSrc(e); newDst(e) }), false},
		"accept that was taken":    {&intent{kind: model.OrderAccept, opening: 0}, entryOf(same), false},
		"adopt":                    {&intent{kind: model.OrderAdopt}, entryOf(func(e *entry) { e.found = false }), true},
		"adopt that was taken":     {&intent{kind: model.OrderAdopt}, entryOf(same), false},
	} {
		if got := c.it.repositions(c.e, "me"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What was still under way for the lost topic, such as a look for its leader, must not let the lane forget what it waits for.
func TestIntent_WaitsForItsTargetWhateverIsSaidOfTheLostOne(t *testing.T) {
	t.Parallel()
	m := newTestManager(t)
	lost, made := model.TopicID{1}, model.TopicID{2}
	l := newLane(m, Assignment{Lane: model.Lane{Link: "dr", Topic: "orders"}, Identity: model.Identity{DstTopic: "orders", Dst: lost}}, m.now())
	l.trouble(model.ReasonLeaderUnavailable, "the target partition has no known leader")
	l.stop(model.ReasonTargetLost, "the topic does not exist any more")
	it := &intent{kind: model.OrderRebuild, lost: lost, answer: make(chan error, 1)}
	if !l.obey(it, true) {
		t.Fatal("a stopped lane does not obey")
	}
	l.trouble(model.ReasonLeaderUnavailable, "the target partition has no known leader")
	l.overdue(m.now().Add(time.Minute))
	if s := l.status(m.now()); s.State != model.StateWaiting {
		t.Fatalf("the lane is %s: %s, want waiting", s.State, s.Reason)
	}
	l.offer(Assignment{Lane: l.id, Identity: model.Identity{DstTopic: "orders", Dst: made}})
	if s := l.status(m.now()); s.State != model.StateOpening || len(it.answer) > 0 {
		t.Fatalf("the lane is %s: %s (%s), want opening", s.State, s.Reason, s.Detail)
	}
}
