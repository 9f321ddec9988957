package kafkatest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fake is an in-process Kafka. It is good for protocol flow and fault hooks; see facts_fake_test.go for where it
// behaves otherwise than Kafka.
type Fake struct {
	*kfake.Cluster
	admin *kgo.Client
}

// NewFake starts a fake cluster (three brokers unless opts say otherwise), closed by t.Cleanup.
func NewFake(t testing.TB, opts ...kfake.Opt) *Fake {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("start fake Kafka: %v", err)
	}
	t.Cleanup(c.Close)
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatalf("start admin client: %v", err)
	}
	t.Cleanup(admin.Close)
	return &Fake{Cluster: c, admin: admin}
}

// FakePair starts two fake clusters, source and target, with ids of their own.
func FakePair(t testing.TB, opts ...kfake.Opt) (src, dst *Fake) {
	t.Helper()
	with := func(id string) []kfake.Opt { return append([]kfake.Opt{kfake.ClusterID(id)}, opts...) }
	return NewFake(t, with("fake-source")...), NewFake(t, with("fake-target")...)
}

// Brokers returns the addresses for clients.
func (f *Fake) Brokers() []string { return f.ListenAddrs() }

// Admin returns a client for raw requests.
func (f *Fake) Admin() *kgo.Client { return f.admin }
