// Package e2e holds the black-box scenarios: the program as an operator runs it, against real Kafka brokers, judged by
// an independent reader of both clusters.
//
// It owns: building the binary, its configuration file, its life and its death, traffic, and what must be true
// afterwards. It knows the command line and the HTTP interface, and nothing of what is behind them. Scenarios that
// take long run with LOCKSTEP_E2E=1; LOCKSTEP_RACE=1 builds the binary with the race detector.
package e2e

import (
	"os"
	"testing"

	"lockstep/internal/kafkatest"
)

func TestMain(m *testing.M) {
	code := kafkatest.M{M: m}.Run()
	whole.end()
	os.Exit(code)
}
