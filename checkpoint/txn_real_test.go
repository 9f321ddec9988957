package checkpoint

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// transaction commits positions of a group as applications do that write their results in the same transaction.
type transaction struct {
	t     testing.TB
	cl    *kgo.Client
	id    string
	pid   int64
	epoch int16
}

// begin starts a transaction; once asks until the coordinator is there.
func begin(t testing.TB, kc *kafkatest.Cluster) *transaction {
	t.Helper()
	cl, err := kgo.NewClient(kc.ClientOpts("")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	x := &transaction{t: t, cl: cl, id: uniqueGroup("txn")}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &x.id, 60_000
	x.until("init producer id", func() (int16, error) {
		resp, err := req.RequestWith(testContext(t), cl)
		if err != nil {
			return 0, err
		}
		x.pid, x.epoch = resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode, nil
	})
	return x
}

func (x *transaction) until(what string, ask func() (int16, error)) {
	x.t.Helper()
	kafkatest.Eventually(x.t, time.Minute, func() (bool, string) {
		code, err := ask()
		if err == nil {
			err = kerr.ErrorForCode(code)
		}
		return err == nil, fmt.Sprintf("%s: %v", what, err)
	})
}

// commit adds a position of the group to the transaction.
func (x *transaction) commit(group string, k Key, offset int64) {
	x.t.Helper()
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = x.id, x.pid, x.epoch, group
	x.until("add offsets to transaction", func() (int16, error) {
		resp, err := add.RequestWith(testContext(x.t), x.cl)
		if err != nil {
			return 0, err
		}
		return resp.ErrorCode, nil
	})
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = k.Partition, offset
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = k.Topic, append(topic.Partitions, p)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = x.id, x.pid, x.epoch, group
	req.Topics = append(req.Topics, topic)
	x.until("commit in transaction", func() (int16, error) {
		resp, err := req.RequestWith(testContext(x.t), x.cl)
		if err != nil {
			return 0, err
		}
		return resp.Topics[0].Partitions[0].ErrorCode, nil
	})
}

func (x *transaction) end(commit bool) {
	x.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = x.id, x.pid, x.epoch, commit
	x.until("end transaction", func() (int16, error) {
		resp, err := req.RequestWith(testContext(x.t), x.cl)
		if err != nil {
			return 0, err
		}
		if resp.Version >= 5 && resp.ErrorCode == 0 { // the next transaction has an epoch of its own
			x.pid, x.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return resp.ErrorCode, nil
	})
}

// While a transaction is open that commits positions, they are unstable: neither the new value is seen, which may be
// aborted, nor is it a fault. The other positions of the group are read.
func TestObserve_UnstableWhileATransactionIsOpen(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, group := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 2}), uniqueGroup("eos")
		held, other := Key{topic, 0}, Key{topic, 1}
		mustCommit(t, c, group, map[Key]Committed{held: {Offset: 100}, other: {Offset: 7}})
		x := begin(t, kc)
		x.commit(group, held, 150)
		g := observed(t, c, group).Groups[group]
		if _, seen := g.Offsets[held]; seen || len(g.Unstable) != 1 || !errors.Is(g.Unstable[held], kerr.UnstableOffsetCommit) || g.Offsets[other].Offset != 7 {
			t.Errorf("while it is open: %+v", g)
		}
		row := Row{DstGroup: group, Key: held, DstTopic: topic, Target: 100, Translated: 120, Write: true}
		if r := Apply(testContext(t), c, []Row{row})[0]; r.State != StatePending || r.Detail == "" {
			t.Errorf("a write over it: %+v", r)
		}
		x.end(false)
		settled := func(want int64) {
			t.Helper()
			awaitState(t, c, group, func(g Group) bool { return len(g.Unstable) == 0 })
			if g := observed(t, c, group).Groups[group]; g.Offsets[held].Offset != want || g.Offsets[other].Offset != 7 {
				t.Errorf("%+v, want %d", g, want)
			}
		}
		settled(100)
		x.commit(group, held, 160)
		x.end(true)
		settled(160)
	})
}
