package kafkatest

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Access is what a client's configuration needs to reach a cluster on its client listener.
type Access struct {
	Brokers   []string
	TLS       bool
	CAFile    string // with TLS
	CertFile  string // with mutual TLS
	KeyFile   string // with mutual TLS
	Mechanism string // "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
	Username  string
	Password  string
}

// Access returns how the user reaches the cluster; user is "" without SASL.
func (c *Cluster) Access(user string) Access {
	s := c.opts.Security
	a := Access{Brokers: c.Brokers(), TLS: s.TLS, Mechanism: s.SASL, Username: user, Password: s.Users[user]}
	if s.TLS {
		a.CAFile = c.certs.CAFile
	}
	if s.MutualTLS {
		a.CertFile, a.KeyFile = c.certs.CertFile, c.certs.KeyFile
	}
	return a
}

// ClientOpts returns the same as options of a kgo client.
func (c *Cluster) ClientOpts(user string) []kgo.Opt {
	a := c.Access(user)
	opts := []kgo.Opt{kgo.SeedBrokers(a.Brokers...), kgo.DisableClientMetrics()}
	if a.TLS {
		conf := c.certs.config.Clone()
		if a.CertFile == "" {
			conf.Certificates = nil
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	switch a.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: user, Pass: a.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: a.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: a.Password}.AsSha512Mechanism()))
	}
	return opts
}
