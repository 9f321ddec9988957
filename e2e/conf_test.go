package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/kafkatest"
)

// conf is a configuration of one link, or of several.
type conf struct {
	primary, backup []string // brokers; links flow from primary to backup unless they say otherwise
	backupUser      string   // of SASL PLAIN, whose password is its name
	links           []linkConf
	dataDir         string // default: a folder of the test
	listen          string // default: a free port
	primaryMore     string // further settings of the cluster primary, such as ", sasl: {…}"
	more            string // further lines, such as "limits: {…}"
}

// linkConf is one link. Its name belongs to the test alone.
type linkConf struct {
	name    string   // default: a random one
	include []string // patterns; see exactly and beginning
	rename  string   // template
	more    []string // further settings, as "start: latest"
	back    bool     // from backup to primary
}

// linkBetween is the usual configuration: one link that copies the topics and nothing else.
func linkBetween(src, dst kafkatest.Target, topics []string, more ...string) conf {
	var include []string
	for _, t := range topics {
		include = append(include, exactly(t))
	}
	return conf{primary: src.Brokers(), backup: dst.Brokers(), links: []linkConf{{include: include, more: more}}}
}

// exactly is the pattern that matches a topic name only; beginning matches all that begin with it.
func exactly(topic string) string    { return regexp.QuoteMeta(topic) }
func beginning(prefix string) string { return regexp.QuoteMeta(prefix) + ".*" }

func linkName() string { return fmt.Sprintf("e2e-%08x", rand.Uint32()) }

// stateTopic is where a link's state stands on the target.
func stateTopic(link string) string { return "lockstep." + link + ".state" }

// complete fills in what the test left to chance.
func (c conf) complete(t testing.TB) conf {
	t.Helper()
	if c.dataDir == "" {
		c.dataDir = filepath.Join(t.TempDir(), "data")
	}
	if c.listen == "" {
		c.listen = freeAddress(t)
	}
	links := make([]linkConf, len(c.links))
	for i, l := range c.links {
		if l.name == "" {
			l.name = linkName()
		}
		links[i] = l
	}
	c.links = links
	return c
}

// yaml is the file as an operator would write it.
func (c conf) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node: {data_dir: %q}\napi: {listen: %q}\n", c.dataDir, c.listen)
	fmt.Fprintf(&b, "clusters:\n  primary: {brokers: [%s]%s}\n  backup: {brokers: [%s]%s}\n", quoted(c.primary), c.primaryMore, quoted(c.backup), sasl(c.backupUser))
	b.WriteString("links:\n")
	for _, l := range c.links {
		source, target := "primary", "backup"
		if l.back {
			source, target = target, source
		}
		fmt.Fprintf(&b, "  - name: %s\n    source: %s\n    target: %s\n    topics: {include: [%s]%s}\n", l.name, source, target, quoted(l.include), l.renaming())
		for _, line := range l.more {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	b.WriteString(c.more + "\n")
	return b.String()
}

func sasl(user string) string {
	if user == "" {
		return ""
	}
	return fmt.Sprintf(", sasl: {mechanism: plain, username: %s, password: %s}", user, user)
}

func (l linkConf) renaming() string {
	if l.rename == "" {
		return ""
	}
	return ", rename: '" + l.rename + "'"
}

// quoted lists texts as YAML does, in single quotes: patterns have backslashes.
func quoted(texts []string) string {
	qs := make([]string, len(texts))
	for i, s := range texts {
		qs[i] = "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strings.Join(qs, ", ")
}

// write puts the configuration into a file of the test.
func (c conf) write(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(file, []byte(c.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// handedOut holds the ports that tests of this process got.
var handedOut sync.Map

// freeAddress returns a loopback address where nobody listens. It lies below the range from which the kernel takes ports
// for outgoing connections, so that a service that is started again finds it free.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 200 {
		n := 12000 + rand.IntN(7000)
		if _, taken := handedOut.LoadOrStore(n, true); taken {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(n))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port found")
	return ""
}
