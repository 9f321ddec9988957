package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/config"
)

func TestDial_OpensNoConnection(t *testing.T) {
	t.Parallel()
	cut := newCutter()
	c := dialConfig(t, config.Cluster{Name: "dead", Brokers: []string{"127.0.0.1:1"}}, Options{Dialer: cut.dial})
	if n := cut.dialled(); n != 0 {
		t.Errorf("Dial opened %d connections", n)
	}
	if c.Name() != "dead" {
		t.Errorf("Name = %q", c.Name())
	}
}

func TestDial_RefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  config.Cluster
		want string
	}{
		"no brokers": {config.Cluster{Name: "a"}, "no brokers"},
		"mechanism":  {config.Cluster{Name: "a", Brokers: []string{"h:1"}, SASL: &config.SASL{Mechanism: "kerberos"}}, `"kerberos"`},
		"ca_file":    {config.Cluster{Name: "a", Brokers: []string{"h:1"}, TLS: &config.TLS{CAFile: "/none/ca.pem"}}, "/none/ca.pem"},
		"cert_file":  {config.Cluster{Name: "a", Brokers: []string{"h:1"}, TLS: &config.TLS{CertFile: "/none/c.pem", KeyFile: "/none/k.pem"}}, "/none/c.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Dial(tc.cfg, Options{Logger: quiet()})
			if err == nil {
				c.Close()
				t.Fatal("Dial accepted it")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not name %q", err, tc.want)
			}
		})
	}
}

func TestCluster_RolesHaveTheirOwnClients(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1))
	c := dialConfig(t, config.Cluster{Name: "x", Brokers: fake.ListenAddrs(), ClientID: "mirror"}, Options{ClientID: "dr"})
	if c.Admin() == c.Read() || c.Read() == c.Produce() || c.Admin() == c.Produce() {
		t.Fatal("two roles share a client")
	}
	f, err := c.NewFetch()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for role, cl := range map[string]*kgo.Client{"admin": c.Admin(), "read": c.Read(), "produce": c.Produce(), "fetch": f} {
		if got := cl.OptValue(kgo.ClientID); got != "mirror-dr" {
			t.Errorf("%s: client id %v", role, got)
		}
		if got := cl.OptValue(kgo.BrokerMaxReadBytes); got != int32(1<<30) {
			t.Errorf("%s: BrokerMaxReadBytes %v", role, got)
		}
		if got := cl.OptValue(kgo.ConnIdleTimeout); got != connIdle {
			t.Errorf("%s: ConnIdleTimeout %v", role, got)
		}
		if got := cl.OptValue(kgo.DisableClientMetrics); got != (role != "admin") {
			t.Errorf("%s: DisableClientMetrics %v", role, got)
		}
	}
	if got := c.Admin().OptValue(kgo.MetadataMinAge); got != minMetadataAge {
		t.Errorf("admin: MetadataMinAge %v", got)
	}
}

func TestCluster_BrokerComesBackUnderAnotherAddress(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	if err := fake.MoveTopicPartition("t", 0, 1); err != nil {
		t.Fatal(err)
	}
	put(t, c, p, 1, "before")
	fetch, err := c.NewFetch()
	if err != nil {
		t.Fatal(err)
	}
	defer fetch.Close()
	if _, err := fetch.Broker(1).Request(testContext(t), readRequest(p, leaderInfo{Leader: Leader{1, -1}}, 0, 1<<20, false)); err != nil {
		t.Fatal(err)
	}

	if err := fake.RemoveNode(1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fake.AddNode(1, 0); err != nil {
		t.Fatal(err)
	}
	if err := fake.MoveTopicPartition("t", 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadAt(testContext(t), p, 0, 1<<20, false); err != nil {
		t.Errorf("ReadAt after the move: %v", err)
	}
	// A fetch loop addresses the broker by number only; the failed dial makes its client look again.
	eventually(t, "the fetch client has found the broker again", func() bool {
		_, err := fetch.Broker(1).Request(testContext(t), readRequest(p, leaderInfo{Leader: Leader{1, -1}}, 0, 1<<20, false))
		return err == nil
	})
}

func TestCluster_Versions(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(3))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	ctx := testContext(t)
	// One broker that cannot be asked does not hide the others.
	down := fake.ListenAddrs()[2]
	cut.setRefused(down, true)
	for range 2 {
		p, err := c.ProduceMaxVersion(ctx)
		if err != nil || p < ProduceByID {
			t.Fatalf("ProduceMaxVersion = %d, %v", p, err)
		}
		f, err := c.FetchMaxVersion(ctx)
		if err != nil || f < FetchByID {
			t.Fatalf("FetchMaxVersion = %d, %v", f, err)
		}
		cut.setRefused(down, false)
	}
	c.ForgetVersions()
	cut.setRefused(down, true)
	cut.setRefused(fake.ListenAddrs()[0], true)
	cut.setRefused(fake.ListenAddrs()[1], true)
	cut.cut("")
	c.opts.Timeout = minMetadataAge
	if _, err := c.ProduceMaxVersion(ctx); err == nil {
		t.Error("ProduceMaxVersion of a cluster that is down gave no error")
	}
}
