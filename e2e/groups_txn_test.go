package e2e

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
)

// While a transaction holds a group's position, the target keeps the one before; what is aborted never gets there.
func TestGroups_OpenTransaction(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(200, 1))
	group := prefix + "eos"
	stand(t, src, group, at(topic, 0, 100))
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.awaitStands(dst, group, at(topic, 0, 100))
	x := beginOffsetTxn(t, src, group)
	x.commits(topic, 150)
	s.groupIs(group, "unstable")
	s.pass(src, dst, prefix, topic)
	stillStands(t, dst, group, at(topic, 0, 100))
	x.ends(false)
	s.groupIs(group, "synced")
	stillStands(t, dst, group, at(topic, 0, 100))
	x = beginOffsetTxn(t, src, group)
	x.commits(topic, 160)
	s.groupIs(group, "unstable")
	stillStands(t, dst, group, at(topic, 0, 100))
	x.ends(true)
	s.awaitStands(dst, group, at(topic, 0, 160))
	s.groupIs(group, "synced")
	s.stop()
}

// offsetTxn is an open transaction that commits positions of a group.
type offsetTxn struct {
	t     *testing.T
	c     kafkatest.Target
	group string
	id    string
	pid   int64
	epoch int16
}

func beginOffsetTxn(t *testing.T, c kafkatest.Target, group string) *offsetTxn {
	t.Helper()
	x := &offsetTxn{t: t, c: c, group: group, id: linkName()}
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = &x.id, 300_000, -1, -1
	got, err := init.RequestWith(t.Context(), c.Admin())
	if err == nil {
		err = kerr.ErrorForCode(got.ErrorCode)
	}
	if err != nil {
		t.Fatalf("begin a transaction: %v", err)
	}
	x.pid, x.epoch = got.ProducerID, got.ProducerEpoch
	return x
}

// try repeats a request for as long as Kafka is busy with the transaction.
func (x *offsetTxn) try(what string, ask func() (int16, error)) {
	x.t.Helper()
	kafkatest.Eventually(x.t, groupPatience, func() (bool, string) {
		code, err := ask()
		if err == nil {
			err = kerr.ErrorForCode(code)
		}
		return err == nil, fmt.Sprintf("%s: %v", what, err)
	})
}

func (x *offsetTxn) commits(topic string, next int64) {
	x.t.Helper()
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = x.id, x.pid, x.epoch, x.group
	x.try("add offsets to the transaction", func() (int16, error) {
		got, err := add.RequestWith(x.t.Context(), x.c.Admin())
		if err != nil {
			return 0, err
		}
		return got.ErrorCode, nil
	})
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = x.id, x.group, x.pid, x.epoch
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = next
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	x.try("commit offsets in the transaction", func() (int16, error) {
		got, err := req.RequestWith(x.t.Context(), x.c.Admin())
		if err != nil {
			return 0, err
		}
		return got.Topics[0].Partitions[0].ErrorCode, nil
	})
}

func (x *offsetTxn) ends(commit bool) {
	x.t.Helper()
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = x.id, x.pid, x.epoch, commit
	x.try("end the transaction", func() (int16, error) {
		got, err := end.RequestWith(x.t.Context(), x.c.Admin())
		if err != nil {
			return 0, err
		}
		return got.ErrorCode, nil
	})
}
