package kafkatest

import "time"

// Options describe a cluster; the zero value is one node of Kafka4 with plain text and no authorizer.
type Options struct {
	Version    string            // Kafka4 (default) or Kafka3
	Nodes      int               // 1 (default) or more; every node is broker and controller, with ids 1, 2, …
	Properties map[string]string // further server properties; they win over the defaults here
	Authorizer bool              // StandardAuthorizer; what a client may do then depends on Security's users
	Security   Security          // of the client listener
	Proxied    bool              // a Proxy stands before each broker and is what the broker advertises
	HeapMB     int               // of each node; default 512
	ReadyIn    time.Duration     // how long starting may take; default 60 s
}

// Security says how clients authenticate on the client listener; zero is plain text.
type Security struct {
	TLS       bool              // encrypted, with a server certificate of a CA made for this cluster
	MutualTLS bool              // clients need a certificate too; principal "CN=client"; implies TLS
	SASL      string            // "", "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512"
	Users     map[string]string // user name to password, for SASL; they have no rights but those that a test grants
}

func (o Options) withDefaults() Options {
	if o.Version == "" {
		o.Version = Kafka4
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.HeapMB == 0 {
		o.HeapMB = 512
	}
	if o.ReadyIn == 0 {
		o.ReadyIn = time.Minute
	}
	if o.Security.MutualTLS {
		o.Security.TLS = true
	}
	return o
}

// protocol returns Kafka's name for the client listener's security.
func (s Security) protocol() string {
	switch {
	case s.TLS && s.SASL != "":
		return "SASL_SSL"
	case s.TLS:
		return "SSL"
	case s.SASL != "":
		return "SASL_PLAINTEXT"
	default:
		return "PLAINTEXT"
	}
}
