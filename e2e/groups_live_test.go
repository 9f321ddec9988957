package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
)

// halves makes a topic of a thousand records that is copied, and lets a group of it stand at 500 on both sides.
func halves(t *testing.T, src, dst *kafkatest.Cluster, prefix string) (s *service, topic, group string) {
	t.Helper()
	topic = kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	group = prefix + "billing"
	stand(t, src, group, at(topic, 0, 500))
	s = newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.copied(src, topic)
	s.awaitStands(dst, group, at(topic, 0, 500))
	return s, topic, group
}

// A group lives where its members are. Wherever the source's position goes, one with members on the target is left alone,
// and where it was moved there it stays when they are gone and after a restart, until the operator says otherwise.
func TestGroups_LiveOnTheTarget(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]bool{"classic": false, "KIP-848": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := pair(t)
			prefix := kafkatest.TopicName(t) + "-"
			s, topic, group := halves(t, src, dst, prefix)
			members := []*kgo.Client{join(t, dst, group, topic, next), join(t, dst, group, topic, next), join(t, dst, group, topic, next)}
			awaitGroupState(t, dst, group, "Stable")
			reader := readsOn(t, members)
			for round := range int64(3) {
				stand(t, src, group, at(topic, 0, 600+round))
				s.pass(src, dst, prefix, topic)
			}
			g := s.groupIs(group, "active_on_target")
			if g.TargetState == "" || g.TargetState == "Dead" || g.TargetState == "Empty" {
				t.Errorf("a group with members is shown as %q on the target", g.TargetState)
			}
			commitAs(t, reader, topic, 800)
			for _, m := range members {
				m.Close()
			}
			awaitGroupState(t, dst, group, "Empty")
			stand(t, src, group, at(topic, 0, 650))
			s.groupIs(group, "moved_on_target")
			s.stop()
			s.start()
			s.groupIs(group, "moved_on_target")
			s.pass(src, dst, prefix, topic)
			stillStands(t, dst, group, at(topic, 0, 800))
			s.command("groups", "accept", group, "--link", s.link(), "--yes").want(t, 0)
			s.awaitStands(dst, group, at(topic, 0, 650))
			s.stop()
		})
	}
}

// readsOn waits until one of the members got the partition and read from it, and returns that one.
func readsOn(t *testing.T, members []*kgo.Client) (reader *kgo.Client) {
	t.Helper()
	kafkatest.Eventually(t, groupPatience, func() (bool, string) {
		for _, m := range members {
			if rs, _ := pollOnce(t, m); len(rs) > 0 {
				reader = m
			}
		}
		return reader != nil, "no member reads"
	})
	return reader
}

// commitAs commits as the member that reads the partition.
func commitAs(t *testing.T, m *kgo.Client, topic string, next int64) {
	t.Helper()
	kafkatest.Eventually(t, groupPatience, func() (bool, string) {
		var failed error
		m.CommitOffsetsSync(t.Context(), map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: next}}},
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
				failed = commitError(resp, err)
			})
		return failed == nil, fmt.Sprintf("commit as a member: %v", failed)
	})
}

func commitError(resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || len(resp.Topics) == 0 {
		return cmp.Or(err, errors.New("no answer"))
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// A consumer joins, commits and leaves on the target again and again while the source's position moves: between two looks
// there is always something new, and no position that it committed is ever taken back.
func TestGroups_JoinBetweenLookAndWrite(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	s, topic, group := halves(t, src, dst, prefix)
	for round := range int64(12) {
		stand(t, src, group, at(topic, 0, 510+round)) // something to write
		m := join(t, dst, group, topic, round%2 == 1)
		reader := readsOn(t, []*kgo.Client{m})
		own := 600 + 10*round
		commitAs(t, reader, topic, own)
		stand(t, src, group, at(topic, 0, 511+round))
		m.Close()
		s.pass(src, dst, prefix, topic)
		s.pass(src, dst, prefix, topic)
		stillStands(t, dst, group, at(topic, 0, own))
	}
	s.stop()
}

// A group of another kind has the name on the target already; what keeps no offsets is shown and left alone.
func TestGroups_OtherKinds(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(20, 1))
	stand(t, src, prefix+"billing", at(topic, 0, 7))
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic})
	shareMember(t, dst, prefix+"billing", topic)
	shareMember(t, src, prefix+"shared", topic)
	streamsMember(t, src, prefix+"stream", topic)
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.groupIs(prefix+"billing", "type_conflict")
	for group, typ := range map[string]string{"shared": "share", "stream": "streams"} {
		if g := s.groupIs(prefix+group, "unsupported_type"); g.Type != typ {
			t.Errorf("the %s group is shown as of type %q", typ, g.Type)
		}
	}
	s.pass(src, dst, prefix, topic)
	for group, want := range map[string]string{"billing": "share", "shared": "", "stream": ""} {
		if got := groupType(t, dst, prefix+group); got != want {
			t.Errorf("on the target group %s is of type %q, want %q", group, got, want)
		}
	}
	s.command("groups", "list", "--link", s.link()).want(t, 0).says(t, "type_conflict", "unsupported_type")
	s.stop()
}

// shareMember lets a member join a share group.
func shareMember(t *testing.T, c kafkatest.Target, group, topic string) {
	t.Helper()
	ownClient(t, c, kgo.ShareGroup(group), kgo.ConsumeTopics(topic))
	awaitGroupState(t, c, group, "Stable")
}

// streamsMember lets a member join a group by the request that Kafka Streams sends. It is expelled when its session ends.
func streamsMember(t *testing.T, c *kafkatest.Cluster, group, topic string) {
	t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.ProcessID, req.RebalanceTimeoutMillis = group, linkName(), kmsg.StringPtr("process"), 60_000
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	sub, topology := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology(), kmsg.NewStreamsGroupHeartbeatRequestTopology()
	sub.SubtopologyID, sub.SourceTopics = "0", []string{topic}
	topology.Subtopologies = append(topology.Subtopologies, sub)
	req.Topology = &topology
	kafkatest.Eventually(t, groupPatience, func() (bool, string) {
		resp, err := req.RequestWith(t.Context(), kafkatest.Broker(c, coordinator(t, c, group)))
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return err == nil, fmt.Sprint("join a streams group: ", err)
	})
}

func groupType(t testing.TB, c kafkatest.Target, group string) string {
	t.Helper()
	got, err := kadm.NewClient(c.Admin()).ListGroupsByType(t.Context(), nil)
	if err != nil {
		t.Fatalf("list groups: %v", err)
	}
	return got[group].GroupType
}

// Which groups are kept is shown, with the reason for those that are not; lockstep's own never are.
func TestGroups_Filter(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(20, 1))
	left := []string{"connect-" + prefix + "sink", "console-consumer-" + prefix, "__" + prefix, "lockstep." + prefix}
	for _, group := range append(slices.Clone(left), prefix+"billing") {
		stand(t, src, group, at(topic, 0, 7))
	}
	c := linkBetween(src, dst, []string{topic}, "groups: {interval: 500ms, include: ['.*']}")
	s := newService(t, c).start()
	s.awaitStands(dst, prefix+"billing", at(topic, 0, 7))
	s.pass(src, dst, prefix, topic)
	for _, group := range left {
		stillStands(t, dst, group, stands{})
		if g := s.groupIs(group, "excluded"); g.Detail == "" {
			t.Errorf("nobody says why group %s is left out", group)
		}
	}
	s.command("config", "show").want(t, 0).says(t, "console-consumer-.*", "connect-.*", "__.*")
	s.stop()
}
