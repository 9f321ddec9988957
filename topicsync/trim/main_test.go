package trim

import (
	"testing"

	"lockstep/internal/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }
