package kafkatest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// GroupsTool is the class behind kafka-consumer-groups.sh.
const GroupsTool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

// RunTool runs one of Kafka's own command line tools, of the cluster's version, against the cluster, and returns what it
// printed. Tools often end with 0 although they failed: judge by what they print.
func (c *Cluster) RunTool(t testing.TB, class string, args ...string) (stdout, stderr string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "log4j2.properties")
	if err := os.WriteFile(conf, []byte("rootLogger.level=OFF\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.configurationFile=" + conf, "-Dlog4j.rootLogger=OFF",
		"-cp", c.in.classPath(), class, "--bootstrap-server", c.Brokers()[0]}, args...)
	cmd := exec.CommandContext(t.Context(), c.in.java, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Logf("%s ended with %v", class, err)
	}
	return out.String(), errs.String()
}

// ACLsTool puts Kafka's own kafka-acls.sh, of the cluster's version, into a new folder and returns the folder, for a PATH.
func (c *Cluster) ACLsTool(t testing.TB) string {
	t.Helper()
	class := "org.apache.kafka.tools.AclCommand"
	if c.opts.Version == Kafka3 {
		class = "kafka.admin.AclCommand"
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "log4j2.properties")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC '-Dlog4j2.configurationFile=%s' -Dlog4j.rootLogger=OFF -cp '%s' %s \"$@\"\n",
		c.in.java, conf, c.in.classPath(), class)
	for file, text := range map[string]string{conf: "rootLogger.level=OFF\n", filepath.Join(dir, "kafka-acls.sh"): script} {
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
