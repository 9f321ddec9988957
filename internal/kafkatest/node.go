package kafkatest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// node is one broker: its folder, ports and, while it runs, its process.
type node struct {
	id    int32
	dir   string
	ports []port
	proxy *Proxy // nil unless Options.Proxied
	proc  *process
	down  bool // a test ended it
}

func (n *node) dataDir() string { return filepath.Join(n.dir, "data") }
func (n *node) logFile() string { return filepath.Join(n.dir, "broker.log") }
func (n *node) conf() string    { return filepath.Join(n.dir, "server.properties") }

// format makes the data folder look as Kafka's storage tool leaves it.
func (n *node) format(in *install, clusterID string) error {
	if err := os.MkdirAll(n.dataDir(), 0o755); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	meta := "version=1\ncluster.id=" + clusterID + "\nnode.id=" + strconv.Itoa(int(n.id)) + "\ndirectory.id=" + newUUID() + "\n"
	if err := os.WriteFile(filepath.Join(n.dataDir(), "meta.properties"), []byte(meta), 0o644); err != nil {
		return fmt.Errorf("format node %d: %w", n.id, err)
	}
	if err := os.WriteFile(filepath.Join(n.dataDir(), "bootstrap.checkpoint"), in.bootstrap, 0o644); err != nil {
		return fmt.Errorf("format node %d: %w", n.id, err)
	}
	return nil
}

// start runs the broker's process; it does not wait until the broker answers.
func (n *node) start(in *install, heapMB int) error {
	argv := append([]string{in.java}, in.jvmFlags(n.dir, heapMB)...)
	argv = append(argv, "-cp", in.classPath(), "kafka.Kafka", n.conf())
	p, err := startProcess(n.logFile(), argv...)
	if err != nil {
		return err
	}
	n.proc = p
	return nil
}

const log4j1 = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %m (%c{1})%n
log4j.logger.state.change.logger=WARN
`

const log4j2 = `appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss,SSS} %p %m (%c{1})%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
logger.state.name=state.change.logger
logger.state.level=WARN
`

// writeConfig writes the files that the broker reads at its start.
func (n *node) writeConfig(properties string) error {
	for name, text := range map[string]string{"server.properties": properties, "log4j.properties": log4j1, "log4j2.properties": log4j2} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write settings of node %d: %w", n.id, err)
		}
	}
	return nil
}

// newUUID returns 16 random bytes as Kafka writes them. The first character is never '-', which the tools would take
// for an option.
func newUUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // crypto/rand does not fail
	b[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(b)
}
