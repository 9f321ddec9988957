package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// commandIn finds commands; a word that goes on with something else is a name of the test's.
var commandIn = regexp.MustCompile(`lockstep ((?:[a-z]+ )*[a-z]+)(?:[^a-z0-9:._/-]|$)`)

// checkRemedy makes sure that what a stopped lane tells an operator to do can be done: something has to be told, and
// each command in it exists.
func checkRemedy(t testing.TB, remedy string) {
	t.Helper()
	if remedy == "" || remedy == "by itself" {
		t.Errorf("the remedy of a stopped lane is %q; an operator has to act", remedy)
	}
	for _, m := range commandIn.FindAllStringSubmatch(remedy, -1) {
		words := strings.Fields(m[1])
		usage := "lockstep " + strings.Join(words, " ")
		if r := lockstep(t, append(words, "--help")...); r.code != 0 || !strings.Contains(r.stdout, usage) {
			t.Errorf("the remedy %q names %q, which is no command of this program", remedy, usage)
		}
	}
}
