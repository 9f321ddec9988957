package kafkatest

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The Kafka versions that tests run against.
const (
	Kafka4 = "4.3.1" // default: KRaft only, transactions version 2, produce and fetch by topic id
	Kafka3 = "3.9.1" // the last 3.x: produce up to version 12, transactions version 1
)

// Versions returns the Kafka versions that tests run against, newest first.
func Versions() []string { return []string{Kafka4, Kafka3} }

//go:embed maven
var poms embed.FS

// install is a Kafka version ready to run: jars, and what formatting a data folder writes.
type install struct {
	version   string
	dir       string
	java      string
	training  bool   // the broker leaves its class archive behind when it stops
	bootstrap []byte // bootstrap.checkpoint: metadata version and feature levels of a new cluster
}

// classPath returns the value for java -cp.
func (in *install) classPath() string { return filepath.Join(in.dir, "lib", "*") }

// cacheDir is where a version lives: shared by all test packages of a user, and enough to work offline.
func cacheDir(version string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(base, "lockstep-test", "kafka-"+version), nil
}

func isCached(version string) bool {
	dir, err := cacheDir(version)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, "ready"))
	return err == nil
}

// loadInstall returns the version's files, fetching them on the first use on this machine. Parallel test processes
// wait for each other on a file lock.
func loadInstall(version string) (*install, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("find java: %w", err)
	}
	dir, err := cacheDir(version)
	if err != nil {
		return nil, err
	}
	in := &install{version: version, dir: dir, java: java}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("lock cache folder: %w", err)
	}
	defer unlock()
	if !isCached(version) {
		if err := in.fetch(); err != nil {
			return nil, err
		}
	}
	in.bootstrap, err = os.ReadFile(filepath.Join(dir, "bootstrap.checkpoint"))
	if err != nil {
		return nil, fmt.Errorf("read formatted metadata (remove %s and try again): %w", dir, err)
	}
	return in, in.train()
}

// fetch fills the cache folder; the file "ready" is written last, so an interrupted fetch starts over.
func (in *install) fetch() error {
	pom, err := poms.ReadFile("maven/kafka-" + in.version + "/pom.xml")
	if err != nil {
		return fmt.Errorf("find pom of Kafka %s: %w", in.version, err)
	}
	if err := os.WriteFile(filepath.Join(in.dir, "pom.xml"), pom, 0o644); err != nil {
		return err
	}
	lib := filepath.Join(in.dir, "lib")
	if err := os.RemoveAll(lib); err != nil {
		return err
	}
	cmd := exec.Command("mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+lib)
	cmd.Dir = in.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Kafka %s with mvn: %w\n%s", in.version, err, out)
	}
	if err := in.format(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(in.dir, "ready"), nil, 0o644)
}

// format runs Kafka's storage tool once and keeps the one file that does not depend on cluster or node. Nodes get a
// copy of it and a meta.properties of their own, which saves a JVM start per node.
func (in *install) format() error {
	tmp, err := os.MkdirTemp("", "lockstep-kafka-format-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	conf := filepath.Join(tmp, "server.properties")
	text := "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n" +
		"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n" +
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs=" + filepath.Join(tmp, "data") + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return err
	}
	cmd := exec.Command(in.java, "-cp", in.classPath(), "kafka.tools.StorageTool", "format", "-t", newUUID(), "-c", conf)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("format with Kafka %s: %w\n%s", in.version, err, out)
	}
	b, err := os.ReadFile(filepath.Join(tmp, "data", "bootstrap.checkpoint"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("format with Kafka %s: no bootstrap.checkpoint was written\n%s", in.version, out)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(in.dir, "bootstrap.checkpoint"), b, 0o644)
}
