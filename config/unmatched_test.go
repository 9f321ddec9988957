package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLink_Unmatched(t *testing.T) {
	t.Parallel()
	topics := []string{"orders.v1", "Payments", "eu-invoices-2", "users"}
	for pattern, want := range map[string][]Unmatched{
		"users":        nil,
		".*":           nil,
		`order\.v1`:    {{`order\.v1`, `there is a topic "orders.v1"`}},
		"payments":     {{"payments", `with other capitals it would match "Payments"`}},
		`invoices-\d`:  {{`invoices-\d`, `patterns match whole names: with .* around it, it would match "eu-invoices-2"`}},
		`orders\\.v1`:  {{`orders\\.v1`, `without its backslashes it would match "orders.v1"`}},
		"^user$":       {{"^user$", `patterns match whole names: with .* around it, it would match "users"`}},
		"usres":        {{"usres", ""}},
		"nothing-like": {{"nothing-like", ""}},
	} {
		l := Link{Topics: Topics{Include: []string{pattern}}}
		if diff := cmp.Diff(want, l.Unmatched(topics)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", pattern, diff)
		}
	}
	if got := (Link{Topics: Topics{Include: []string{"a", "b"}}}).Unmatched(nil); len(got) != 2 {
		t.Errorf("of a source without topics: %v", got)
	}
}
