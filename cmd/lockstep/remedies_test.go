package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep/internal/model"
)

// reasons returns every reason that the model has, as its source says.
func reasons(t *testing.T) (out []model.Reason) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../internal/model/state.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Reason") || v.Names[0].Name == "ReasonNone" {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, model.Reason(text))
		return true
	})
	if len(out) < 20 {
		t.Fatalf("found only %d reasons", len(out))
	}
	return out
}

var advised = regexp.MustCompile(`lockstep ((?:links|lanes|topics) [a-z]+ [^\s;,]+(?: --to OFFSET)?)`)

// Whatever a lane stopped for: each command in its remedy is taken as it is written there, and gives one order.
func TestRemedies_EachCommandGivesAnOrder(t *testing.T) {
	t.Parallel()
	lane := model.Lane{Link: "dr", Topic: "orders", Partition: 3}
	for _, r := range reasons(t) {
		remedy := model.Remedy(r, lane)
		commands := advised.FindAllStringSubmatch(remedy, -1)
		if remedy == "" || strings.Count(remedy, "lockstep ") != len(commands) {
			t.Errorf("%s: %q has commands of another form than those that are tried here", r, remedy)
		}
		for _, m := range commands {
			b := &orderBackend{steps: []model.OrderStep{skipStep(isDone)}}
			args := append(strings.Fields(strings.Replace(m[1], "OFFSET", "7", 1)), "--yes", "--server", b.serve(t))
			if out, errs, code := lockstep(t, args...); code != exitOK || len(b.done()) != 1 {
				t.Errorf("%s: lockstep %s: exit code %d, %d orders: %s%s", r, m[1], code, len(b.done()), out, errs)
			}
		}
	}
}

var mentioned = regexp.MustCompile(`lockstep ([a-z]+) ([a-z-]+)`)

// A text of the program that names a command of a group, as "lockstep lanes …", names one that exists.
func TestTexts_NameCommandsThatExist(t *testing.T) {
	t.Parallel()
	groups := make(map[string][]string)
	for _, name := range []string{"links", "lanes", "topics", "config"} {
		help, _, code := lockstep(t, name, "--help")
		_, list, found := strings.Cut(help, "Commands:\n")
		if code != exitOK || !found {
			t.Fatalf("%s --help: %s", name, help)
		}
		for line := range strings.Lines(list) {
			if !strings.HasPrefix(line, "  ") {
				break
			}
			groups[name] = append(groups[name], strings.Fields(line)[0])
		}
	}
	seen := 0
	for _, text := range texts(t) {
		for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
			known, ok := groups[m[1]]
			if ok && !slices.Contains(known, m[2]) {
				t.Errorf("%q names lockstep %s %s, which is no command", text, m[1], m[2])
			}
			if ok {
				seen++
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d commands are named: this test looks in the wrong places", seen)
	}
}

// texts are all string literals of the program.
func texts(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "e2e"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					out = append(out, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The page about lanes has every reason, and names only commands that exist.
func TestLanesPage_HasEveryReason(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/lanes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reasons(t) {
		if !strings.Contains(string(page), "`"+string(r)+"`") {
			t.Errorf("docs/lanes.md does not tell about %s", r)
		}
	}
	for _, m := range mentioned.FindAllStringSubmatch(string(page), -1) {
		if help, errs, code := lockstep(t, m[1], m[2], "--help"); m[1] != "run" && (code != exitOK || !strings.Contains(help, "lockstep "+m[1]+" "+m[2])) {
			t.Errorf("docs/lanes.md names lockstep %s %s: %s%s", m[1], m[2], help, errs)
		}
	}
}
