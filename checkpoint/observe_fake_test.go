package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

const topic = "orders"

// fakeGroups starts a fake cluster with n groups that have positions in two partitions.
func fakeGroups(t *testing.T, n int, opts ...kfake.Opt) (*kafkatest.Fake, *kafka.Cluster, []string) {
	t.Helper()
	fake := kafkatest.NewFake(t, append([]kfake.Opt{kfake.SeedTopics(2, topic)}, opts...)...)
	c := dial(t, fake.Brokers(), kafka.Options{Timeout: 5 * time.Second})
	var groups []string
	for i := range n {
		groups = append(groups, fmt.Sprintf("group-%03d", i))
		mustCommit(t, c, groups[i], map[Key]Committed{{topic, 0}: {Offset: int64(i)}, {topic, 1}: {Offset: 7, Metadata: "m"}})
	}
	return fake, c, groups
}

// A broker from before Kafka 2.6 tells neither states nor types, and answers for one group at a time.
func TestObserve_OldBrokers(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 40, kfake.MaxVersions(kversion.V2_4_0()))
	live, err := kgo.NewClient(kgo.SeedBrokers(fake.Brokers()...), kgo.ConsumerGroup("live"), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p, err := Observe(testContext(t), c, nil)
		return err == nil && p.Groups["live"].State == "Stable", fmt.Sprintf("%+v, error %v", p.Groups["live"], err)
	})
	p, err := Observe(testContext(t), c, nil)
	if err != nil || p.Partial != nil || len(p.Failed) > 0 || len(p.Groups) != len(groups)+1 {
		t.Fatalf("%d groups, failed %v, partial %v, error %v", len(p.Groups), p.Failed, p.Partial, err)
	}
	for i, name := range groups {
		g := p.Groups[name]
		if g.Type != TypeClassic || g.State != "Empty" || len(g.Offsets) != 2 || g.Offsets[Key{topic, 0}].Offset != int64(i) || g.Offsets[Key{topic, 1}].Metadata != "m" {
			t.Errorf("%+v", g)
		}
	}
	if p.Groups["live"].Idle() {
		t.Errorf("%+v", p.Groups["live"])
	}
	if r := Apply(testContext(t), c, []Row{planned("live", -1, 3)})[0]; r.State != StateActiveOnTarget {
		t.Errorf("%+v", r)
	}
}

// planned is a row that is to be written in partition 0.
func planned(group string, target, translated int64) Row {
	return Row{Group: group, DstGroup: group, Key: Key{topic, 0}, DstTopic: topic, Target: target, Translated: translated, State: StatePending, Write: true}
}

// A state that no broker tells counts as members.
func TestApply_UnknownStateCountsAsActive(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 1, kfake.MaxVersions(kversion.V2_4_0()))
	answerAlways(fake, kmsg.DescribeGroups, func(req kmsg.Request) (kmsg.Response, error) {
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		for _, g := range req.(*kmsg.DescribeGroupsRequest).Groups {
			rg := kmsg.NewDescribeGroupsResponseGroup()
			rg.Group, rg.ErrorCode, rg.State = g, kerr.CoordinatorLoadInProgress.Code, "Empty"
			resp.Groups = append(resp.Groups, rg)
		}
		return resp, nil
	})
	if r := Apply(testContext(t), c, []Row{planned(groups[0], 0, 3)})[0]; r.State != StateActiveOnTarget || !strings.Contains(r.Detail, "unknown") {
		t.Errorf("%+v", r)
	}
	if g := observed(t, c, groups...).Groups[groups[0]]; g.Offsets[Key{topic, 0}].Offset != 0 {
		t.Errorf("%+v", g)
	}
}

// answerAlways answers all requests of a kind instead of the fake cluster; a nil response leaves it to that.
func answerAlways(fake *kafkatest.Fake, key kmsg.Key, answer func(kmsg.Request) (kmsg.Response, error)) {
	fake.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp, err := answer(req)
		return resp, err, resp != nil || err != nil
	})
}

// One broker that does not list its groups makes the picture partial: its groups have not vanished.
func TestObserve_BrokerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(kmsg.Request) (kmsg.Response, error){
		"refuses": func(req kmsg.Request) (kmsg.Response, error) {
			resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			return resp, nil
		},
		"closes the connection": func(kmsg.Request) (kmsg.Response, error) { return nil, errors.New("closed by the test") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, c, groups := fakeGroups(t, 30)
			at, lost := c.Coordinators(testContext(t), groups)
			if len(lost) > 0 {
				t.Fatal(lost)
			}
			victim := at[groups[0]]
			answerAlways(fake, kmsg.ListGroups, func(req kmsg.Request) (kmsg.Response, error) {
				if fake.CurrentNode() == victim {
					return answer(req)
				}
				return nil, nil
			})
			p, err := Observe(testContext(t), c, nil)
			if err != nil || p.Partial == nil || len(p.Groups) == 0 {
				t.Fatalf("%+v, error %v", p, err)
			}
			again := Reread(testContext(t), c, groups)
			for _, g := range groups {
				_, seen := p.Groups[g]
				if hidden := at[g] == victim; seen == hidden || hidden && again.Failed[g] == nil || !hidden && again.Failed[g] != nil {
					t.Errorf("%s: hidden %t, seen %t, read again: %v", g, hidden, seen, again.Failed[g])
				}
			}
			if r := Apply(testContext(t), c, []Row{planned(groups[0], 0, 3)})[0]; r.State != StateTargetUnreadable || r.Detail == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestObserve_NobodyAnswers(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 2)
	answerAlways(fake, kmsg.ListGroups, func(kmsg.Request) (kmsg.Response, error) { return nil, errors.New("closed by the test") })
	if p, err := Observe(testContext(t), c, nil); err == nil || p.Partial == nil {
		t.Errorf("%+v, error %v", p, err)
	}
	if p := Reread(testContext(t), c, groups); len(p.Failed) != 2 {
		t.Errorf("%+v", p)
	}
	ended, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := Observe(ended, c, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// fetchCode makes coordinators answer the question for offsets of one group with an error.
func fetchCode(fake *kafkatest.Fake, group string, code *kerr.Error) {
	answerAlways(fake, kmsg.OffsetFetch, func(req kmsg.Request) (kmsg.Response, error) {
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.(*kmsg.OffsetFetchRequest).Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group = g.Group
			if rg.Group == group {
				rg.ErrorCode = code.Code
			} else {
				p := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: 1, Offset: 3}
				none := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: 0, Offset: -1}
				rg.Topics = append(rg.Topics, kmsg.OffsetFetchResponseGroupTopic{Topic: topic, Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{p, none}})
			}
			resp.Groups = append(resp.Groups, rg)
		}
		return resp, nil
	})
}

func TestObserve_OneGroupFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code *kerr.Error
		gone bool
	}{
		{kerr.NotCoordinator, false}, {kerr.CoordinatorLoadInProgress, false}, {kerr.GroupAuthorizationFailed, false}, {kerr.GroupIDNotFound, true},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			t.Parallel()
			fake, cl, groups := fakeGroups(t, 3)
			fetchCode(fake, groups[1], c.code)
			p, err := Observe(testContext(t), cl, nil)
			if err != nil || p.Partial != nil || len(p.Groups) != 2 {
				t.Fatalf("%+v, error %v", p, err)
			}
			if c.gone != (len(p.Failed) == 0) || !c.gone && !errors.Is(p.Failed[groups[1]], c.code) {
				t.Errorf("failed: %v", p.Failed)
			}
			// An offset of -1 is no position.
			if g := p.Groups[groups[0]]; len(g.Offsets) != 1 || g.Offsets[Key{topic, 1}].Offset != 3 {
				t.Errorf("%+v", g)
			}
		})
	}
}

func TestApply_Refusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   *kerr.Error
		want   State
		detail string
	}{
		{kerr.UnknownMemberID, StateActiveOnTarget, "UNKNOWN_MEMBER_ID"},
		{kerr.IllegalGeneration, StateActiveOnTarget, "ILLEGAL_GENERATION"},
		{kerr.RebalanceInProgress, StateActiveOnTarget, "REBALANCE_IN_PROGRESS"},
		{kerr.FencedInstanceID, StateActiveOnTarget, "FENCED_INSTANCE_ID"},
		{kerr.StaleMemberEpoch, StateActiveOnTarget, "STALE_MEMBER_EPOCH"},
		{kerr.GroupIDNotFound, StateTypeConflict, "GROUP_ID_NOT_FOUND"},
		{kerr.NotCoordinator, StatePending, "NOT_COORDINATOR"},
		{kerr.CoordinatorLoadInProgress, StatePending, "COORDINATOR_LOAD_IN_PROGRESS"},
		{kerr.UnknownTopicOrPartition, StatePending, "UNKNOWN_TOPIC_OR_PARTITION"},
		{kerr.GroupAuthorizationFailed, StateNotAuthorized, "READ on group group-000"},
		{kerr.TopicAuthorizationFailed, StateNotAuthorized, "READ on topic orders"},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			t.Parallel()
			fake, cl, groups := fakeGroups(t, 1)
			answerAlways(fake, kmsg.OffsetCommit, func(req kmsg.Request) (kmsg.Response, error) {
				return commitAnswer(req.(*kmsg.OffsetCommitRequest), c.code.Code), nil
			})
			r := Apply(testContext(t), cl, []Row{planned(groups[0], 0, 3)})[0]
			if r.State != c.want || !strings.Contains(r.Detail, c.detail) || r.Write || r.Target != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func commitAnswer(req *kmsg.OffsetCommitRequest, code int16) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// No answer to a commit: it may be written or not, so it comes again.
func TestApply_CommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 1)
	var sent atomic.Int32
	answerAlways(fake, kmsg.OffsetCommit, func(kmsg.Request) (kmsg.Response, error) {
		sent.Add(1)
		return nil, errors.New("closed by the test")
	})
	if r := Apply(testContext(t), c, []Row{planned(groups[0], 0, 3)})[0]; r.State != StatePending || r.Target != 0 || r.Detail == "" {
		t.Errorf("%+v", r)
	}
	if n := sent.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

// What a commit says on the wire: it comes from no member, names no epoch, and keeps the metadata.
func TestApply_CommitOnTheWire(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 1)
	sent := make(chan *kmsg.OffsetCommitRequest, 10)
	answerAlways(fake, kmsg.OffsetCommit, func(req kmsg.Request) (kmsg.Response, error) {
		sent <- req.(*kmsg.OffsetCommitRequest)
		return nil, nil
	})
	first, second := planned(groups[0], 0, 3), planned(groups[0], 7, 8)
	first.Metadata, second.Partition = "kept", 1
	for _, r := range Apply(testContext(t), c, []Row{first, second}) {
		if r.State != StateSynced {
			t.Errorf("%+v", r)
		}
	}
	got := <-sent
	if len(sent) > 0 || got.Generation != -1 || got.MemberID != "" || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 2 {
		t.Fatalf("%d more, %+v", len(sent), got)
	}
	p := got.Topics[0].Partitions
	if p[0].LeaderEpoch != -1 || p[1].LeaderEpoch != -1 || *p[0].Metadata != "kept" || *p[1].Metadata != "" || p[0].Offset != 3 || p[1].Offset != 8 {
		t.Errorf("%+v", p)
	}
}

// A coordinator that moves is asked again; the group's positions are then written.
func TestCommit_CoordinatorMoves(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 1)
	var tries atomic.Int32
	answerAlways(fake, kmsg.OffsetCommit, func(req kmsg.Request) (kmsg.Response, error) {
		if tries.Add(1) > 2 {
			return nil, nil
		}
		return commitAnswer(req.(*kmsg.OffsetCommitRequest), kerr.NotCoordinator.Code), nil
	})
	refused, err := Commit(testContext(t), c, groups[0], map[Key]Committed{{topic, 0}: {Offset: 9}})
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v, error %v", refused, err)
	}
	if g := observed(t, c, groups...).Groups[groups[0]]; g.Offsets[Key{topic, 0}].Offset != 9 {
		t.Errorf("%+v", g)
	}
}

// However many groups there are, a coordinator gets two requests for their offsets at most; and only wanted groups are
// asked for.
func TestObserve_FewRequests(t *testing.T) {
	t.Parallel()
	const n = 1200
	fake, c, _ := fakeGroups(t, 1, kfake.NumBrokers(2))
	var rows []Row
	for i := range n {
		rows = append(rows, planned(fmt.Sprintf("many-%04d", i), -1, int64(i)))
	}
	for _, r := range Apply(testContext(t), c, rows) {
		if r.State != StateSynced {
			t.Fatalf("%+v", r)
		}
	}
	var requests, groups atomic.Int32
	answerAlways(fake, kmsg.OffsetFetch, func(req kmsg.Request) (kmsg.Response, error) {
		requests.Add(1)
		groups.Add(int32(len(req.(*kmsg.OffsetFetchRequest).Groups)))
		return nil, nil
	})
	p, err := Observe(testContext(t), c, nil)
	if err != nil || p.Partial != nil || len(p.Failed) > 0 || len(p.Groups) != n+1 || requests.Load() > 4 {
		t.Errorf("%d groups, %d failed, %d requests, partial %v, error %v", len(p.Groups), len(p.Failed), requests.Load(), p.Partial, err)
	}
	requests.Store(0)
	groups.Store(0)
	p, err = Observe(testContext(t), c, func(g string) bool { return g < "many-0003" })
	if err != nil || len(p.Groups) != 4 || groups.Load() != 4 || requests.Load() > 2 {
		t.Errorf("%d groups, %d asked for in %d requests, error %v", len(p.Groups), groups.Load(), requests.Load(), err)
	}
}
