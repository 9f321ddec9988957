package kafkatest

import (
	"cmp"
	"context"
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed java
var javaSources embed.FS

// javaPatience bounds a compilation and a run of a Java program.
const javaPatience = 2 * time.Minute

// Java is a compiled Java program that uses Kafka's own classes, those of Kafka4, and MirrorMaker 2's among them.
type Java struct {
	in        *install
	classPath string
}

// NewJava compiles source files. They may be in packages of Kafka's, and so use what is not public there. It skips the test
// as Require does, also where there is no compiler.
func NewJava(t testing.TB, sources ...string) *Java {
	t.Helper()
	Require(t)
	javac, err := exec.LookPath("javac")
	if err != nil {
		cannotRun(t, "Java programs of tests need javac (a JDK, 17 or newer) in PATH")
	}
	in, err := loadInstall(Kafka4)
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := loadMirror()
	if err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	j := &Java{in: in, classPath: strings.Join([]string{classes, in.classPath(), mirror}, string(os.PathListSeparator))}
	j.execute(t, "", javac, append([]string{"-nowarn", "-cp", j.classPath, "-d", classes}, sources...)...)
	return j
}

// Run runs a class to its end and returns the lines of its standard output that begin with "> ", without that: what Kafka's
// classes log goes there too. The test fails when the program does.
func (j *Java) Run(t testing.TB, stdin, class string, args ...string) []string {
	t.Helper()
	flags := []string{"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dlog4j2.level=WARN",
		"-Djava.net.preferIPv4Stack=true", "-cp", j.classPath, class}
	var lines []string
	for line := range strings.Lines(j.execute(t, stdin, j.in.java, append(flags, args...)...)) {
		if said, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "> "); ok {
			lines = append(lines, said)
		}
	}
	return lines
}

// execute runs a command to its end and returns its standard output.
func (j *Java) execute(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), javaPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", filepath.Base(name), args[len(args)-1], err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// loadMirror returns the class path of MirrorMaker 2's jars, fetching them on the first use on this machine.
func loadMirror() (classPath string, err error) {
	dir, err := cacheDir("mirror-" + Kafka4)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("lock cache folder: %w", err)
	}
	defer unlock()
	lib, ready := filepath.Join(dir, "lib"), filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return filepath.Join(lib, "*"), nil
	}
	pom, err := poms.ReadFile("maven/mirror-" + Kafka4 + "/pom.xml")
	if err != nil {
		return "", fmt.Errorf("find pom of MirrorMaker: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	// What the jars need is on the broker's class path already.
	cmd := exec.Command("mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DexcludeTransitive=true", "-DoutputDirectory="+lib)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch MirrorMaker %s with mvn: %w\n%s", Kafka4, err, out)
	}
	return filepath.Join(lib, "*"), os.WriteFile(ready, nil, 0o644)
}

// JavaConsumer is a consumer of the Java client in a group that goes on where the group stands, and nowhere else: it fails
// where there is no position.
type JavaConsumer struct {
	Group    string
	Topics   []string
	Protocol string // "classic" or "consumer" (KIP-848); "" is classic
	Records  int    // how many to read
	Commit   bool   // commit behind them
}

// Consumed is a record that a JavaConsumer read.
type Consumed struct {
	Topic     string
	Partition int32
	Offset    int64
	Value     string // "" of a null too
}

// NewJavaConsumer compiles the program that Consume runs.
func NewJavaConsumer(t testing.TB) *Java {
	t.Helper()
	source, err := javaSources.ReadFile("java/Consume.java")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "Consume.java")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	return NewJava(t, file)
}

// Consume lets the Java client read and returns what it read, in the order of reading. It fails the test when there are not
// so many records within 80 seconds. The receiver comes from NewJavaConsumer.
func (j *Java) Consume(t testing.TB, c Target, o JavaConsumer) []Consumed {
	t.Helper()
	lines := j.Run(t, "", "Consume", strings.Join(c.Brokers(), ","), o.Group, cmp.Or(o.Protocol, "classic"), strconv.Itoa(o.Records),
		strconv.FormatBool(o.Commit), strings.Join(o.Topics, ","))
	out := make([]Consumed, len(lines))
	for i, line := range lines {
		var err error
		if out[i], err = parseConsumed(line); err != nil {
			t.Fatalf("the consumer printed %q: %v", line, err)
		}
	}
	return out
}

func parseConsumed(line string) (c Consumed, err error) {
	var value string
	if _, err := fmt.Sscanf(line, "%s %d %d %s", &c.Topic, &c.Partition, &c.Offset, &value); err != nil {
		return c, err
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(value, "="))
	c.Value = string(b)
	return c, err
}
