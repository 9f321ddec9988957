package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// missing reports what is required and was not given, or was given as nothing.
func (l *loader) missing() {
	l.schema.walk(func(n *node) {
		if !n.Required {
			return
		}
		for _, p := range l.instances(n) {
			if !l.on(n, p) || !l.ok(p) || n.container() && l.hasEntries(p) {
				continue
			}
			if wrong := l.absent(n, p); wrong != "" {
				l.fault(Fault{Place: l.place(p, l.whole()), What: wrong, Allowed: n.allowed()}, p)
			}
		}
	})
}

// hasEntries reports whether there is any entry below clusters or links, good or bad.
func (l *loader) hasEntries(p path) bool {
	for key := range l.places {
		if strings.HasPrefix(key, p.key()+delim) {
			return true
		}
	}
	for key := range l.bad {
		if strings.HasPrefix(key, p.key()+delim) {
			return true
		}
	}
	return false
}

func (l *loader) absent(n *node, p path) string {
	if !l.has(p) {
		return "is missing"
	}
	if n.container() {
		return "is empty"
	}
	if list, ok := l.given.Get(p.key()).([]string); ok && len(list) == 0 {
		return "is empty"
	}
	return ""
}

// check looks at everything that needs more than one value or something outside of the configuration.
func (l *loader) check() {
	l.checkListeners()
	for _, name := range l.clusters {
		l.checkCluster(l.config.Clusters[name])
	}
	for i := range l.config.Links {
		l.checkLink(i)
	}
	l.checkLinkNames()
	l.checkLoops()
	l.checkHeartbeats()
}

func (l *loader) checkListeners() {
	at := path{"metrics", "listen"}
	if l.config.Metrics.Listen == "" || !l.ok(at) || !l.ok(path{"api", "listen"}) {
		return
	}
	_, port, _ := splitAddress(l.config.API.Listen)
	if port != 0 && sameListener(l.config.Metrics.Listen, l.config.API.Listen) {
		l.fault(Fault{Place: l.place(at, l.whole()), What: quote(l.config.Metrics.Listen) + " takes the port of api.listen", Allowed: "another port"}, at)
	}
}

// sameListener reports whether the two addresses cannot be listened to at the same time: same port, and equal hosts or
// one of them every address.
func sameListener(a, b string) bool {
	hostA, portA, _ := splitAddress(a)
	hostB, portB, _ := splitAddress(b)
	every := []string{"", "0.0.0.0", "::"}
	return portA == portB && (hostA == hostB || slices.Contains(every, hostA) || slices.Contains(every, hostB))
}

func (l *loader) checkCluster(c Cluster) {
	at := path{"clusters", c.Name}
	if c.TLS != nil {
		l.checkTLS(at.add("tls"), *c.TLS)
	}
	if password := at.add("sasl", "password"); c.SASL != nil && c.SASL.Password.IsSet() && l.ok(password) {
		if _, err := c.SASL.Password.Reveal(); err != nil {
			l.fault(Fault{Place: l.place(password, l.whole()), What: err.Error(), Allowed: l.schema.at(password).allowed()}, password)
		}
	}
}

func (l *loader) checkTLS(at path, t TLS) {
	files := []struct{ key, file string }{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}}
	for _, f := range files {
		if p := at.add(f.key); f.file != "" && l.ok(p) {
			l.checkFile(p, f.file)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") && l.ok(at.add("cert_file")) && l.ok(at.add("key_file")) {
		have, lack := "cert_file", "key_file"
		if t.CertFile == "" {
			have, lack = lack, have
		}
		l.fault(Fault{Place: l.place(at.add(have), l.whole()), What: "is missing, while " + have + " is there", Allowed: "both or none"}, at.add(lack))
	}
}

// checkFile makes sure that a file is there; whether it holds a certificate is seen by who uses it.
func (l *loader) checkFile(at path, file string) {
	const largest = 16 << 20
	content, err := readRegular(file, largest)
	wrong := ""
	switch {
	case err != nil:
		wrong = fmt.Sprintf("%s cannot be read: %s", quote(file), cause(err))
	case len(content) == 0:
		wrong = quote(file) + " is empty"
	}
	if wrong != "" {
		l.fault(Fault{Place: l.place(at, l.whole()), What: wrong, Allowed: l.schema.at(at).allowed()}, at)
	}
}

// at returns the node of a real path.
func (n *node) at(p path) *node {
	for _, s := range p {
		n = n.step(s)
	}
	return n
}

func (l *loader) checkLink(i int) {
	link, at := &l.config.Links[i], path{"links", index(i)}
	source, target := at.add("source"), at.add("target")
	known := l.checkEnd(source, link.Source)
	known = l.checkEnd(target, link.Target) && known
	if !known {
		return
	}
	if link.Source == link.Target {
		l.fault(Fault{Place: l.place(target, l.whole()), What: "is " + quote(link.Target) + ", the source itself", Allowed: "another cluster"}, target)
		return
	}
	a, b := l.config.Clusters[link.Source], l.config.Clusters[link.Target]
	if broker := sharedBroker(a, b); broker != "" {
		l.fault(Fault{Place: l.place(target, l.whole()), What: fmt.Sprintf("%s and %s are one cluster: both have the broker %s", quote(a.Name), quote(b.Name), broker), Allowed: "another cluster"}, target)
	}
}

// checkEnd reports a source or target that is no cluster. known is false also when that was reported before.
func (l *loader) checkEnd(at path, name string) (known bool) {
	if !l.ok(at) {
		return false
	}
	if slices.Contains(l.clusters, name) {
		return l.ok(path{"clusters", name})
	}
	if !l.bad[path{"clusters", name}.key()] {
		l.fault(Fault{Place: l.place(at, l.whole()), What: "there is no cluster " + quote(name), Allowed: strings.Join(l.clusters, ", "), Nearest: nearest(name, l.clusters)}, at)
	}
	return false
}

// sharedBroker returns an address that both clusters have. Behind a proxy that goes by the TLS server name, one
// address can lead to two clusters, so that clusters with different names for it do not count.
func sharedBroker(a, b Cluster) string {
	if a.TLS != nil && b.TLS != nil && a.TLS.ServerName != b.TLS.ServerName {
		return ""
	}
	for _, broker := range a.Brokers {
		if slices.ContainsFunc(b.Brokers, func(o string) bool { return sameAddress(broker, o) }) {
			return broker
		}
	}
	return ""
}

func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && portA == portB && strings.EqualFold(hostA, hostB)
}

// checkLinkNames refuses equal names, and names whose state topics a broker takes for the same: it keeps dots and
// underscores apart in topics but not in the names of its metrics.
func (l *loader) checkLinkNames() {
	first := map[string]int{}
	for i, link := range l.config.Links {
		at := path{"links", index(i), "name"}
		if !l.ok(at) || link.Name == "" {
			continue
		}
		key := strings.ReplaceAll(link.Name, ".", "_")
		j, taken := first[key]
		if !taken {
			first[key] = i
			continue
		}
		wrong := fmt.Sprintf("%s is the name of links[%d] too", quote(link.Name), j)
		if other := l.config.Links[j].Name; other != link.Name {
			wrong = fmt.Sprintf("%s differs from %s of links[%d] only in dots and underscores, which Kafka takes for the same", quote(link.Name), quote(other), j)
		}
		l.fault(Fault{Place: l.place(at, l.whole()), What: wrong, Allowed: "a name that no other link has"}, at)
	}
}
