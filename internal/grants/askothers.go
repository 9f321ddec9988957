package grants

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

const (
	// describeDead is the last version in which a group that does not exist is described as a dead one.
	describeDead = 5
	// commitByName and addByClient are the last versions that a client which knows no topic ids, and one that is no broker,
	// may use.
	commitByName, addByClient = 9, 3
)

// send asks the broker that takes what is asked of none in particular. It is not repeated elsewhere.
func (a *asker) send(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return a.c.Admin().Broker(int(a.broker)).Request(ctx, req)
}

// askGroup asks what may be done with a group. Its coordinator lists it; any other broker refuses what may not be done
// before it says that it is not the coordinator, so that nobody has to be found.
func (a *asker) askGroup(ctx context.Context, group string) error {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	resp, err := a.send(ctx, kafka.Pinned{Request: req, Max: describeDead})
	if err != nil {
		return err
	}
	elsewhere := false
	for _, g := range resp.(*kmsg.DescribeGroupsResponse).Groups {
		elsewhere = g.ErrorCode == kerr.NotCoordinator.Code
		switch {
		case judge(g.ErrorCode) == isDenied:
			for _, op := range []Operation{Read, Delete, Describe} {
				a.note(Group, group, op, isDenied)
			}
			return nil
		case g.ErrorCode == 0 && a.listed(Group, group, g.AuthorizedOperations, Read, Delete, Describe):
			return nil
		}
		a.note(Group, group, Describe, judge(g.ErrorCode))
	}
	if err := a.askCommit(ctx, group); err != nil || !elsewhere {
		return err
	}
	return a.askDeletePosition(ctx, group)
}

// askCommit commits a position in a topic that does not exist.
func (a *asker) askCommit(ctx context.Context, group string) error {
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = all.sample(), []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = group, -1, []kmsg.OffsetCommitRequestTopic{t}
	resp, err := a.send(ctx, kafka.Pinned{Request: req, Max: commitByName})
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			// A refusal that concerns the topic came after the group was allowed.
			v := judge(p.ErrorCode)
			if p.ErrorCode == topicRefused {
				v = isAllowed
			}
			a.note(Group, group, Read, v)
		}
	}
	return nil
}

// askDeletePosition deletes a position in a topic that does not exist. Only a broker that does not coordinate the group is
// asked: a coordinator may take the occasion to forget a group that has no positions.
func (a *asker) askDeletePosition(ctx context.Context, group string) error {
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic, t.Partitions = all.sample(), []kmsg.OffsetDeleteRequestTopicPartition{kmsg.NewOffsetDeleteRequestTopicPartition()}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group, req.Topics = group, []kmsg.OffsetDeleteRequestTopic{t}
	resp, err := a.send(ctx, req)
	if err == nil {
		a.note(Group, group, Delete, judge(resp.(*kmsg.OffsetDeleteResponse).ErrorCode))
	}
	return err
}

// askTransactionalID adds a partition of a topic that does not exist to a transaction: brokers refuse the id, then the
// topic, before they look for the coordinator.
func (a *asker) askTransactionalID(ctx context.Context, id string) error {
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = all.sample(), []int32{0}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Topics = id, -1, -1, []kmsg.AddPartitionsToTxnRequestTopic{t}
	resp, err := a.send(ctx, kafka.Pinned{Request: req, Max: addByClient})
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.AddPartitionsToTxnResponse).Topics {
		for _, p := range t.Partitions {
			v := judge(p.ErrorCode)
			if p.ErrorCode == topicRefused {
				v = isAllowed
			}
			a.note(TransactionalID, id, Write, v)
		}
	}
	return nil
}

// askCluster asks what may be done with the cluster itself. Brokers list it to those who may describe it; others are told
// no operation at all.
func (a *asker) askCluster(ctx context.Context) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, a.c.Admin())
	if err == nil && resp.ErrorCode == 0 && resp.ClusterAuthorizedOperations != 0 {
		a.listed(Cluster, "", resp.ClusterAuthorizedOperations, Describe, Alter, DescribeConfigs, AlterConfigs, IdempotentWrite)
		return nil
	}
	if err == nil && resp.ErrorCode == 0 {
		a.note(Cluster, "", Describe, isDenied)
		a.note(Cluster, "", Alter, isDenied) // it would include DESCRIBE
	}
	if err := a.askBrokerSetting(ctx); err != nil {
		return err
	}
	return a.askQuota(ctx)
}

func (a *asker) askBrokerSetting(ctx context.Context) error {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(a.broker)), []string{"log.retention.ms"}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{r}
	resp, err := req.RequestWith(ctx, a.c.Admin())
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		a.note(Cluster, "", DescribeConfigs, judge(r.ErrorCode))
	}
	return nil
}

// askQuota has the controller look at a request to take a limit from a client that nobody is, without doing it.
func (a *asker) askQuota(ctx context.Context) error {
	who := kmsg.NewAlterClientQuotasRequestEntryEntity()
	who.Type, who.Name = "client-id", kmsg.StringPtr(all.sample())
	what := kmsg.NewAlterClientQuotasRequestEntryOp()
	what.Key, what.Remove = "consumer_byte_rate", true
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity, e.Ops = []kmsg.AlterClientQuotasRequestEntryEntity{who}, []kmsg.AlterClientQuotasRequestEntryOp{what}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.ValidateOnly, req.Entries = true, []kmsg.AlterClientQuotasRequestEntry{e}
	resp, err := req.RequestWith(ctx, a.c.Admin())
	if err != nil {
		return err
	}
	for _, e := range resp.Entries {
		a.note(Cluster, "", AlterConfigs, judge(e.ErrorCode))
	}
	return nil
}
