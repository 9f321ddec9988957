package term

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// dial returns the product's clients of a test cluster.
func dial(t *testing.T, c kafkatest.Target) *kafka.Cluster {
	t.Helper()
	return dialAs(t, c, "")
}

// dialAs is dial for a user of SASL PLAIN whose password is its name.
func dialAs(t *testing.T, c kafkatest.Target, user string) *kafka.Cluster {
	t.Helper()
	cfg := config.Cluster{Name: "dst", Brokers: c.Brokers()}
	if user != "" {
		cfg.SASL = &config.SASL{Mechanism: "plain", Username: user, Password: config.NewSecret(user)}
	}
	dst, err := kafka.Dial(cfg, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dst.Close)
	return dst
}

// within is a context of a minute.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// take takes a term and fails the test when there is none.
func mustTake(t *testing.T, dst *kafka.Cluster, link string, last model.Term) model.Term {
	t.Helper()
	got, err := Take(within(t), dst, link, last, "me")
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	return got
}

// write produces one batch of n records as a lane of that term does, and returns the broker's answer by name.
func write(t *testing.T, c kafkatest.Target, topic string, partition int32, term model.Term, seq, n int32) string {
	t.Helper()
	codecs, err := batch.NewCodecs(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	var rs []batch.Record
	for i := range n {
		rs = append(rs, batch.Record{Offset: int64(i), Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: []byte("v")})
	}
	built, err := codecs.Encode(rs, batch.CodecNone, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(built[0].Bytes, term.PID, term.Epoch, seq)
	return kafkatest.ErrorName(kafkatest.ProduceRaw(t, c, topic, partition, built[0].Bytes).ErrorCode)
}

// mustWrite is write for a batch that has to be taken.
func mustWrite(t *testing.T, c kafkatest.Target, topic string, partition int32, term model.Term, seq, n int32) {
	t.Helper()
	if got := write(t, c, topic, partition, term, seq, n); got != "NONE" {
		t.Fatalf("produce to %s/%d in term %d with sequence %d: %s", topic, partition, term.N, seq, got)
	}
}

// targets names partitions 0 … n-1 of a topic.
func targets(topic string, n int32) []Target {
	var out []Target
	for p := range n {
		out = append(out, Target{Part: kafka.Part{Topic: topic, Partition: p}})
	}
	return out
}

// checkSealed fails unless the partition is sealed, its marker is the log's last entry before which want offsets lie,
// the old term is refused and the new one begins at sequence 0.
func checkSealed(t *testing.T, c kafkatest.Target, o Outcome, part kafka.Part, old, now model.Term, want int64) {
	t.Helper()
	if !o.Sealed() {
		t.Fatalf("%s is not sealed: %v", part, o.Err)
	}
	if o.Marker != want {
		t.Errorf("marker of %s at %d, want %d", part, o.Marker, want)
	}
	if end := kafkatest.End(t, c, part.Topic, part.Partition); end != want+1 {
		t.Errorf("end of %s is %d, want %d", part, end, want+1)
	}
	if got := write(t, c, part.Topic, part.Partition, old, 0, 1); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("old term's batch on %s: %s, want INVALID_PRODUCER_EPOCH", part, got)
	}
	mustWrite(t, c, part.Topic, part.Partition, now, 0, 1)
}

// grant adds ACLs that allow a user operations on a named or, with "*", every topic or transactional id.
func grant(t *testing.T, c *kafkatest.Cluster, b *kadm.ACLBuilder) {
	t.Helper()
	b = b.AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
	created, err := c.Kadm().CreateACLs(within(t), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range created {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}
