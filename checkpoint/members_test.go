package checkpoint

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// join makes a group live by a member of the given type, and returns when the cluster lists it with members. leave ends
// the member; the test's end does too.
func join(t testing.TB, kc *kafkatest.Cluster, c *kafka.Cluster, typ GroupType, group, topic string) (leave func()) {
	t.Helper()
	leave = func() {}
	if typ == TypeStreams {
		joinStreams(t, kc, group, topic)
	} else {
		leave = consume(t, kc, typ, group, topic)
	}
	awaitState(t, c, group, func(g Group) bool { return g.Type == typ && (g.State == "Stable" || typ == TypeStreams && !g.Idle()) })
	return leave
}

// awaitState waits until a group is listed as it is wanted.
func awaitState(t testing.TB, c *kafka.Cluster, group string, want func(Group) bool) {
	t.Helper()
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p := Reread(testContext(t), c, []string{group})
		g, ok := p.Groups[group]
		return ok && want(g), fmt.Sprintf("%+v", p)
	})
}

// consume polls with a client that is a member of the group until leave.
func consume(t testing.TB, kc *kafkatest.Cluster, typ GroupType, group, topic string) (leave func()) {
	t.Helper()
	opts := append(kc.ClientOpts(""), kgo.ConsumeTopics(topic), kgo.HeartbeatInterval(100*time.Millisecond))
	switch typ {
	case TypeShare:
		opts = append(opts, kgo.ShareGroup(group))
	case TypeConsumer:
		opts = append(opts, kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	default:
		opts = append(opts, kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.SessionTimeout(6*time.Second))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for !cl.PollFetches(t.Context()).IsClientClosed() && t.Context().Err() == nil {
		}
	}()
	leave = func() {
		cl.Close()
		<-polled
	}
	t.Cleanup(leave)
	return leave
}

// joinStreams makes one member of a streams group by the request that Kafka Streams sends. It is expelled when its
// session ends.
func joinStreams(t testing.TB, kc *kafkatest.Cluster, group, topic string) {
	t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "member-1", 60_000
	req.ProcessID = kmsg.StringPtr("process-1")
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID, sub.SourceTopics = "0", []string{topic}
	top := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	top.Subtopologies = append(top.Subtopologies, sub)
	req.Topology = &top
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		at, lost := dial(t, kc.Brokers(), kafka.Options{}).Coordinators(testContext(t), []string{group})
		if len(lost) > 0 {
			return false, fmt.Sprint(lost)
		}
		resp, err := req.RequestWith(testContext(t), kafkatest.Broker(kc, at[group]))
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return err == nil, fmt.Sprint(err)
	})
}
