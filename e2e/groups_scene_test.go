package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// groupPatience bounds how long a position may need to get to the target on a busy machine.
const groupPatience = 40 * time.Second

// stands are where a group stands: the next offset to read by "topic/partition".
type stands map[string]int64

// at is one position.
func at(topic string, partition int32, next int64) stands {
	return stands{laneKey(topic, partition): next}
}

// groupsBetween is a link that copies the topics, and keeps the groups whose names begin with prefix.
func groupsBetween(src, dst kafkatest.Target, prefix string, topics []string, more ...string) conf {
	c := linkBetween(src, dst, topics)
	c.links[0].more = []string{keeping(prefix, more...)}
	return c
}

// keeping is the setting of groups that belong to one test, with further ones such as "max_rewind: 10".
func keeping(prefix string, more ...string) string {
	text := fmt.Sprintf("groups: {interval: 500ms, include: ['%s']", beginning(prefix))
	for _, m := range more {
		text += ", " + m
	}
	return text + "}"
}

// stand lets a group stand somewhere, as an application does that has read up to there and left.
func stand(t testing.TB, c kafkatest.Target, group string, where stands) {
	t.Helper()
	var os kadm.Offsets
	for lane, next := range where {
		topic, partition := splitLane(t, lane)
		os.Add(kadm.Offset{Topic: topic, Partition: partition, At: next, LeaderEpoch: -1, Metadata: "up to " + fmt.Sprint(next)})
	}
	commit(t, c, group, os)
}

func commit(t testing.TB, c kafkatest.Target, group string, os kadm.Offsets) {
	t.Helper()
	kafkatest.Eventually(t, groupPatience, func() (bool, string) { // a coordinator may just be loading
		err := kadm.NewClient(c.Admin()).CommitAllOffsets(t.Context(), group, os)
		return err == nil, fmt.Sprintf("commit of group %s: %v", group, err)
	})
}

// committed returns a group's positions as the cluster has them, nothing for a group that is not there.
func committed(t testing.TB, c kafkatest.Target, group string) (got kadm.OffsetResponses) {
	t.Helper()
	kafkatest.Eventually(t, groupPatience, func() (bool, string) { // a coordinator may just be made
		var err error
		if got, err = kadm.NewClient(c.Admin()).FetchOffsets(t.Context(), group); err == nil {
			err = got.Error()
		}
		return err == nil, fmt.Sprintf("fetch offsets of group %s: %v", group, err)
	})
	return got
}

func standing(t testing.TB, c kafkatest.Target, group string) stands {
	t.Helper()
	out := make(stands)
	committed(t, c, group).Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			out[laneKey(o.Topic, o.Partition)] = o.At
		}
	})
	return out
}

// awaitStands waits until a group stands exactly there on a cluster, and nowhere else.
func (s *service) awaitStands(c kafkatest.Target, group string, want stands) {
	s.t.Helper()
	kafkatest.Eventually(s.t, groupPatience, func() (bool, string) {
		got := standing(s.t, c, group)
		if maps.Equal(got, want) {
			return true, ""
		}
		return false, fmt.Sprintf("group %s stands at %v, want %v; the service says %s", group, got, want, s.groupText(group))
	})
}

// stillStands fails the test when a group does not stand there.
func stillStands(t testing.TB, c kafkatest.Target, group string, want stands) {
	t.Helper()
	if got := standing(t, c, group); !maps.Equal(got, want) {
		t.Errorf("group %s stands at %v, want %v", group, got, want)
	}
}

// pass returns when a look at the groups that began after the call has been acted upon: another group, which moved at
// the time of the call, has got to the target.
func (s *service) pass(src, dst kafkatest.Target, prefix, topic string) {
	s.t.Helper()
	group := prefix + linkName()
	stand(s.t, src, group, at(topic, 0, 0))
	kafkatest.Eventually(s.t, groupPatience, func() (bool, string) {
		return len(standing(s.t, dst, group)) == 1, "the next pass has not come; the service says " + s.groupText(group)
	})
}

// group returns what the service says of a group.
func (s *service) group(name string) (api.GroupDetail, error) {
	return s.client.Group(s.t.Context(), s.link(), name)
}

func (s *service) groupText(name string) string {
	g, err := s.group(name)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s: %s, positions %+v", g.State, g.Detail, g.Positions)
}

// groupIs waits until a group is in a state, and checks what the service offers the operator for it.
func (s *service) groupIs(name, state string) api.GroupDetail {
	s.t.Helper()
	g := s.awaitGroup(name, groupPatience, func(g api.GroupDetail) bool { return g.State == state })
	if g.State != "synced" && g.Remedy == "" {
		s.t.Errorf("group %s is %s and nobody says what helps", name, state)
	}
	return g
}

// position returns one position of a group.
func position(t testing.TB, g api.GroupDetail, topic string, partition int32) api.GroupPosition {
	t.Helper()
	for _, p := range g.Positions {
		if p.Topic == topic && p.Partition == partition {
			return p
		}
	}
	t.Fatalf("group %s has no position in %s/%d: %+v", g.Group.Group, topic, partition, g.Positions)
	return api.GroupPosition{}
}

// join lets a member join a group and begin to read; it leaves with the test, or when its client is closed. The group is
// of the classic protocol, or with next of that of KIP-848.
func join(t testing.TB, c kafkatest.Target, group, topic string, next bool) *kgo.Client {
	t.Helper()
	opts := []kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset())}
	if next {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	return ownClient(t, c, opts...)
}

// firstRead is the first record that a member of the group reads.
func firstRead(t testing.TB, c kafkatest.Target, group, topic string, next bool) *kgo.Record {
	t.Helper()
	cl := join(t, c, group, topic, next)
	defer cl.Close()
	return firstOf(t, cl)
}

func firstOf(t testing.TB, cl *kgo.Client) (first *kgo.Record) {
	t.Helper()
	kafkatest.Eventually(t, groupPatience, func() (bool, string) {
		rs, err := pollOnce(t, cl)
		if len(rs) > 0 {
			first = rs[0]
		}
		return first != nil, fmt.Sprintf("nothing was read: %v", err)
	})
	return first
}

// pollOnce reads what there is, and waits for a moment when there is nothing.
func pollOnce(t testing.TB, cl *kgo.Client) ([]*kgo.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	fetches := cl.PollRecords(ctx, 1)
	return fetches.Records(), fetches.Err()
}

// recordAt is the record that a reader of committed records gets first from an offset on.
func recordAt(t testing.TB, c kafkatest.Target, topic string, partition int32, from int64) *kgo.Record {
	t.Helper()
	cl := ownClient(t, c, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	defer cl.Close()
	return firstOf(t, cl)
}

func isCopying(l api.LaneDetail) bool { return l.State == "copying" }
