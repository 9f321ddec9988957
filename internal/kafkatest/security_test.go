package kafkatest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// TestSecurity_OnlyWhatIsGranted shows that the client listener asks for authentication and that the authorizer
// knows the user: refused before an ACL is there, allowed after.
func TestSecurity_OnlyWhatIsGranted(t *testing.T) {
	kafkatest.Long(t)
	users := map[string]string{"app": "se\"cret"}
	for name, tc := range map[string]struct {
		security  kafkatest.Security
		principal string
	}{
		"PLAIN":             {kafkatest.Security{SASL: "PLAIN", Users: users}, "User:app"},
		"SCRAM-SHA-256 TLS": {kafkatest.Security{SASL: "SCRAM-SHA-256", TLS: true, Users: users}, "User:app"},
		"SCRAM-SHA-512":     {kafkatest.Security{SASL: "SCRAM-SHA-512", Users: users}, "User:app"},
		"mutual TLS":        {kafkatest.Security{MutualTLS: true}, "User:CN=client"},
	} {
		t.Run(name, func(t *testing.T) {
			c := kafkatest.Start(t, kafkatest.Options{Authorizer: true, Security: tc.security})
			user := ""
			if tc.security.SASL != "" {
				user = "app"
			}
			topic := kafkatest.Topic(t, c)
			cl, err := kgo.NewClient(append(c.ClientOpts(user), kgo.RequestRetries(0))...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("1")}).FirstErr()
			if !errors.Is(err, kerr.TopicAuthorizationFailed) {
				t.Fatalf("without an ACL: %v", err)
			}
			grantWrite(t, c, tc.principal, topic)
			kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
				err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("2")}).FirstErr()
				return err == nil, "produce with an ACL: " + errText(err)
			})
		})
	}
}

func TestSecurity_StrangersAreRefused(t *testing.T) {
	kafkatest.Long(t)
	c := kafkatest.Start(t, kafkatest.Options{Security: kafkatest.Security{SASL: "SCRAM-SHA-512", Users: map[string]string{"app": "right"}}})
	for name, opts := range map[string][]kgo.Opt{
		"no authentication": {kgo.SeedBrokers(c.Brokers()...)},
		"unknown user":      c.ClientOpts("stranger"),
	} {
		cl, err := kgo.NewClient(append(opts, kgo.RequestRetries(0))...)
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.Ping(t.Context()); err == nil {
			t.Errorf("%s: the broker answered", name)
		}
		cl.Close()
	}
}

func grantWrite(t *testing.T, c *kafkatest.Cluster, principal, topic string) {
	t.Helper()
	b := kadm.NewACLs().Topics(topic).Allow(principal).AllowHosts("*").Operations(kadm.OpWrite, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral)
	if _, err := c.Kadm().CreateACLs(t.Context(), b); err != nil {
		t.Fatalf("grant write to %s: %v", principal, err)
	}
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}
