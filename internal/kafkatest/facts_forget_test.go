package kafkatest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quickForgetting lowers what a broker remembers producers by from days to seconds.
func quickForgetting() map[string]string {
	return map[string]string{
		"transactional.id.expiration.ms":                             "2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "500",
		"producer.id.expiration.ms":                                  "2000",
		"producer.id.expiration.check.interval.ms":                   "500",
	}
}

// awaitForgotten waits until the partition's leader does not list the producer any more.
func awaitForgotten(t *testing.T, c Target, topic string, pid int64) {
	t.Helper()
	Eventually(t, 30*time.Second, func() (bool, string) {
		ps := producers(t, c, topic, 0)
		listed := slices.ContainsFunc(ps, func(p kmsg.DescribeProducersResponseTopicPartitionActiveProducer) bool { return p.ProducerID == pid })
		return !listed, fmt.Sprintf("producer %d is still known: %+v", pid, ps)
	})
}

func TestBroker_ForgetsTransactionalIDs(t *testing.T) {
	Long(t)
	eachOwn(t, Options{Properties: quickForgetting()}, func(t *testing.T, c *Cluster) {
		txnID := txnIDFor(t)
		initProducer(t, c, txnID)
		pid, epoch := initProducer(t, c, txnID)
		if epoch != 1 {
			t.Fatalf("epoch %d, want 1", epoch)
		}
		Eventually(t, 30*time.Second, func() (bool, string) {
			state := describeTxn(t, c, txnID)
			return state == "TRANSACTIONAL_ID_NOT_FOUND", "transaction state: " + state
		})
		again, first := initProducer(t, c, txnID)
		if again == pid || first != 0 {
			t.Fatalf("producer %d epoch %d after %d epoch %d; want another id with epoch 0", again, first, pid, epoch)
		}
	})
}

// describeTxn returns the state of the transactional id, or the name of the error.
func describeTxn(t *testing.T, c Target, txnID string) string {
	t.Helper()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{txnID}
	resp, err := c.Admin().Request(t.Context(), req)
	if err != nil {
		return err.Error()
	}
	s := resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
	if s.ErrorCode != 0 {
		return ErrorName(s.ErrorCode)
	}
	return s.State
}

func TestBroker_ForgetsProducers(t *testing.T) {
	Long(t)
	eachOwn(t, Options{Properties: quickForgetting()}, func(t *testing.T, c *Cluster) {
		topic, pid := Topic(t, c), strangeID()
		runSteps(t, c, topic, 0,
			step{"a batch", NewBatch(pid, 0, 0, 2), ok, 0},
			step{"the same again", NewBatch(pid, 0, 0, 2), ok, 0},
		)
		awaitForgotten(t, c, topic, pid)
		runSteps(t, c, topic, 0, step{"the same again, forgotten: written twice", NewBatch(pid, 0, 0, 2), ok, 2})
		sealDirect(t, c, topic, 0, pid, 1)
		runSteps(t, c, topic, 0, step{"the ended epoch", NewBatch(pid, 0, 2, 1), fenced, 0})
		awaitForgotten(t, c, topic, pid)
		runSteps(t, c, topic, 0, step{"the ended epoch, forgotten", NewBatch(pid, 0, 2, 1), ok, 5})
	})
}

// TestBroker_ForgetsByRecordTimeAtASweep keeps the expiration of one day and shortens only the time between sweeps.
func TestBroker_ForgetsByRecordTimeAtASweep(t *testing.T) {
	Long(t)
	props := map[string]string{"producer.id.expiration.check.interval.ms": "1000"}
	eachOwn(t, Options{Properties: props}, func(t *testing.T, c *Cluster) {
		fresh, freshID := Topic(t, c), strangeID()
		runSteps(t, c, fresh, 0, step{"records of now", NewBatch(freshID, 0, 0, 2), ok, 0})
		for name, at := range map[string]int64{"two days old": time.Now().Add(-48 * time.Hour).UnixMilli(), "time -1": -1} {
			topic, pid := Topic(t, c), strangeID()
			runSteps(t, c, topic, 0, step{name, NewBatch(pid, 0, 0, 2).At(at), ok, 0})
			awaitForgotten(t, c, topic, pid)
			runSteps(t, c, topic, 0, step{name + " again: written twice", NewBatch(pid, 0, 0, 2).At(at), ok, 2})
		}
		runSteps(t, c, fresh, 0, step{"records of now again: known", NewBatch(freshID, 0, 0, 2), ok, 0})
	})
}

// TestBroker_ForgetsByRecordTimeAtARestart has the default times: no sweep comes before the restart.
func TestBroker_ForgetsByRecordTimeAtARestart(t *testing.T) {
	Long(t)
	eachOwn(t, Options{}, func(t *testing.T, c *Cluster) {
		fresh, freshID := Topic(t, c), strangeID()
		old, oldID := Topic(t, c), strangeID()
		when := time.Now().Add(-48 * time.Hour).UnixMilli()
		runSteps(t, c, fresh, 0, step{"records of now", NewBatch(freshID, 0, 0, 2), ok, 0})
		runSteps(t, c, old, 0,
			step{"two days old", NewBatch(oldID, 0, 0, 2).At(when), ok, 0},
			step{"again: known", NewBatch(oldID, 0, 0, 2).At(when), ok, 0},
		)
		c.Stop(t, 1)
		c.Restart(t, 1)
		AwaitLeaders(t, c, fresh)
		AwaitLeaders(t, c, old)
		runSteps(t, c, fresh, 0, step{"records of now again: known", NewBatch(freshID, 0, 0, 2), ok, 0})
		runSteps(t, c, old, 0, step{"two days old again: written twice", NewBatch(oldID, 0, 0, 2).At(when), ok, 2})
	})
}

func TestBroker_EpochsRunOut(t *testing.T) {
	Long(t)
	onKafka(t, func(t *testing.T, c Target) {
		txnID := txnIDFor(t)
		pid, last := initProducer(t, c, txnID)
		start := time.Now()
		for calls := 1; ; calls++ {
			next, epoch := initProducer(t, c, txnID)
			if next != pid {
				t.Logf("%d calls took %s; the last epoch of producer %d was %d", calls, time.Since(start).Round(time.Millisecond), pid, last)
				if epoch != 0 || last < 32_700 {
					t.Fatalf("new producer at epoch %d, after epoch %d", epoch, last)
				}
				return
			}
			if epoch != last+1 {
				t.Fatalf("epoch %d follows %d", epoch, last)
			}
			last = epoch
		}
	})
}
