package kafkatest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Each node has three listeners: CLIENT for the code under test, INTERNAL for the other brokers and the test's own
// admin client (always plain text, never through a proxy), CONTROLLER for the quorum.
const (
	listenClient = iota
	listenInternal
	listenController
	listeners // number of ports per node
)

// properties returns the node's server.properties.
func (c *Cluster) properties(n *node) string {
	p := quickDefaults(c.opts.Nodes)
	maps.Copy(p, c.identity(n))
	maps.Copy(p, c.securityProperties())
	maps.Copy(p, c.opts.Properties)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, strings.ReplaceAll(p[k], `\`, `\\`))
	}
	return b.String()
}

// identity holds who the node is and where it and the others listen.
func (c *Cluster) identity(n *node) map[string]string {
	var voters []string
	for _, m := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", m.id, m.ports[listenController].addr()))
	}
	client, internal := n.ports[listenClient].addr(), n.ports[listenInternal].addr()
	advertised := client
	if n.proxy != nil {
		advertised = n.proxy.Addr()
	}
	return map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(int(n.id)),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"listeners":                      "CLIENT://" + client + ",INTERNAL://" + internal + ",CONTROLLER://" + n.ports[listenController].addr(),
		"advertised.listeners":           "CLIENT://" + advertised + ",INTERNAL://" + internal,
		"inter.broker.listener.name":     "INTERNAL",
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CLIENT:" + c.opts.Security.protocol() + ",INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       n.dataDir(),
	}
}

// quickDefaults are settings for small, short-lived clusters: few internal partitions, small buffers, no waiting.
func quickDefaults(nodes int) map[string]string {
	rf := strconv.Itoa(min(nodes, 3))
	return map[string]string{
		"auto.create.topics.enable":                                   "false",
		"offsets.topic.num.partitions":                                "4",
		"offsets.topic.replication.factor":                            rf,
		"transaction.state.log.num.partitions":                        "4",
		"transaction.state.log.replication.factor":                    rf,
		"transaction.state.log.min.isr":                               strconv.Itoa(min(nodes, 2)),
		"share.coordinator.state.topic.num.partitions":                "1",
		"share.coordinator.state.topic.replication.factor":            rf,
		"share.coordinator.state.topic.min.isr":                       "1",
		"group.initial.rebalance.delay.ms":                            "0",
		"num.network.threads":                                         "2",
		"num.io.threads":                                              "3",
		"num.recovery.threads.per.data.dir":                           "1",
		"background.threads":                                          "2",
		"log.cleaner.dedupe.buffer.size":                              "4194304",
		"log.cleaner.backoff.ms":                                      "200",
		"log.initial.task.delay.ms":                                   "500",
		"log.retention.check.interval.ms":                             "2000",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
		"log.segment.delete.delay.ms":                                 "1000",
		"broker.heartbeat.interval.ms":                                "500",
		"broker.session.timeout.ms":                                   "4000",
		"replica.lag.time.max.ms":                                     "8000",
	}
}

// securityProperties are those of the authorizer and of the client listener.
func (c *Cluster) securityProperties() map[string]string {
	p := map[string]string{}
	if c.opts.Authorizer {
		p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		// The plain INTERNAL and CONTROLLER listeners know everybody as ANONYMOUS.
		p["super.users"] = "User:ANONYMOUS"
	}
	s := c.opts.Security
	if s.SASL != "" {
		p["sasl.enabled.mechanisms"] = s.SASL
		p["listener.name.client."+strings.ToLower(s.SASL)+".sasl.jaas.config"] = jaas(s)
	}
	if s.TLS {
		p["listener.name.client.ssl.keystore.type"] = "PEM"
		p["listener.name.client.ssl.keystore.location"] = c.certs.serverFile
		p["listener.name.client.ssl.truststore.type"] = "PEM"
		p["listener.name.client.ssl.truststore.location"] = c.certs.CAFile
		p["listener.name.client.ssl.client.auth"] = "none"
	}
	if s.MutualTLS {
		p["listener.name.client.ssl.client.auth"] = "required"
	}
	return p
}

// jaas returns the login module of the client listener; SCRAM's users are in the cluster's metadata instead.
func jaas(s Security) string {
	if s.SASL != "PLAIN" {
		return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	}
	b := strings.Builder{}
	b.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
	for _, u := range slices.Sorted(maps.Keys(s.Users)) {
		fmt.Fprintf(&b, " user_%s=%q", u, s.Users[u])
	}
	return b.String() + ";"
}
