package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// jvmFlags favour a fast start over a fast broker.
func (in *install) jvmFlags(dir string, heapMB int) []string {
	return append([]string{
		"-Xmx" + strconv.Itoa(heapMB) + "m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-XX:-UsePerfData", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true",
		"-Dlog4j.configuration=file:" + filepath.Join(dir, "log4j.properties"),
		"-Dlog4j2.configurationFile=" + filepath.Join(dir, "log4j2.properties"),
	}, in.archiveFlags()...)
}

// archive holds the classes that a broker loads, parsed: it halves the time of a start.
func (in *install) archive() string { return filepath.Join(in.dir, "classes.jsa") }

func (in *install) archiveFlags() []string {
	if in.training {
		return []string{"-XX:ArchiveClassesAtExit=" + in.archive()}
	}
	if _, err := os.Stat(in.archive()); err == nil {
		return []string{"-XX:SharedArchiveFile=" + in.archive()} // one of another JVM is ignored
	}
	return nil
}

// train runs a broker once, so that it leaves the archive behind. Brokers run without it too, so a JVM that makes
// none is no error; it is asked once.
func (in *install) train() error {
	tried := filepath.Join(in.dir, "trained")
	if _, err := os.Stat(tried); err == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "lockstep-kafka-train-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(dir)
	trainee := *in
	trainee.training = true
	c, err := launchOnce(dir, &trainee, Options{Version: in.version}.withDefaults())
	if err != nil {
		return fmt.Errorf("start Kafka %s for the first time: %w", in.version, err)
	}
	defer c.close()
	if err := c.nodes[0].proc.stop(time.Minute); err != nil {
		return fmt.Errorf("stop Kafka %s: %w", in.version, err)
	}
	return os.WriteFile(tried, nil, 0o644)
}
