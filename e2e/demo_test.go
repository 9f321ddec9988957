package e2e

import "testing"

func TestDemo_Once(t *testing.T) {
	t.Parallel()
	lockstep(t, "demo", "--once").want(t, 0).says(t, "killed the copier", "none missing, none twice, all in order", "every check held")
}
