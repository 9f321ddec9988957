package kafkatest

import (
	"os"
	"os/exec"
	"testing"
)

// Require skips the test, printing why, when no real Kafka can run here (no java, or no class path and no mvn to
// fetch it). With CI=true it fails instead: there a missing tool must not look like a pass.
func Require(t testing.TB) {
	t.Helper()
	if why := missingTool(); why != "" {
		cannotRun(t, why)
	}
}

// Long skips the test, printing why, unless LOCKSTEP_E2E=1. It marks tests that need many seconds or many brokers.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("LOCKSTEP_E2E") != "1" {
		t.Skip("slow test on real brokers: set LOCKSTEP_E2E=1 to run it")
	}
}

// missingTool returns why real brokers cannot run, "" when they can.
func missingTool() string {
	if _, err := exec.LookPath("java"); err != nil {
		return "real Kafka needs java (17 or newer) in PATH"
	}
	if _, err := exec.LookPath("mvn"); err == nil {
		return ""
	}
	for _, v := range Versions() {
		if !isCached(v) {
			return "real Kafka needs mvn in PATH, once, to fetch Kafka " + v
		}
	}
	return ""
}

func cannotRun(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s; CI=true forbids skipping", why)
	}
	t.Skip(why)
}
