package repotest

import (
	"bufio"
	"go/parser"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inBackticks = regexp.MustCompile("`([^`\n]+)`")
	testName    = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
	filePath    = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|md|yaml|yml)$`)
	mdLink      = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
)

// documents returns the project's Markdown files.
func documents(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var out []string
	eachFile(t, repo, func(name string) bool { return path.Ext(name) == ".md" }, func(name string) { out = append(out, name) })
	return out
}

// quoted returns what a document has in backticks, outside of fenced blocks.
func quoted(text string) []string {
	var out []string
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		for _, m := range inBackticks.FindAllStringSubmatch(line, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

func TestDocs_NamedTestsExist(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	tests := testNames(t, repo)
	for _, doc := range documents(t, repo) {
		named := 0
		for _, q := range quoted(read(t, repo, doc)) {
			if !testName.MatchString(q) {
				continue
			}
			named++
			if !tests[q] {
				t.Errorf("%s names %s, which does not exist", doc, q)
			}
		}
		if doc == "docs/testing.md" && named == 0 {
			t.Errorf("%s names no test: either it or this test is broken", doc)
		}
	}
}

func TestDocs_NamedFilesExist(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	for _, doc := range documents(t, repo) {
		text := read(t, repo, doc)
		for _, q := range quoted(text) {
			// A bare name such as lockstep.yaml is a reader's file; one with a folder is ours.
			if filePath.MatchString(q) && strings.Contains(q, "/") && !exists(repo, q) {
				t.Errorf("%s names the file %s, which does not exist", doc, q)
			}
		}
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if target := path.Join(path.Dir(doc), m[1]); !strings.Contains(m[1], "://") && !exists(repo, target) {
				t.Errorf("%s links to %s, which does not exist", doc, m[1])
			}
		}
	}
}

func TestDocs_EveryDependencyIsExplained(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	text := read(t, repo, "docs/dependencies.md")
	for _, module := range directModules(t, repo) {
		if !strings.Contains(text, "`"+module+"`") {
			t.Errorf("docs/dependencies.md does not say why %s is used", module)
		}
	}
}

// directModules returns the modules of go.mod that some file imports, whatever go.mod's comments say.
func directModules(t *testing.T, repo fs.FS) []string {
	t.Helper()
	required := regexp.MustCompile(`^(?:require )?\s*(\S+) v\S+`)
	var modules []string
	for s := bufio.NewScanner(strings.NewReader(read(t, repo, "go.mod"))); s.Scan(); {
		if m := required.FindStringSubmatch(s.Text()); m != nil {
			modules = append(modules, m[1])
		}
	}
	used := map[string]bool{}
	for _, s := range sources(t, repo, parser.ImportsOnly) {
		for _, imported := range s.imports() {
			used[moduleOf(modules, imported)] = true
		}
	}
	delete(used, "")
	out := make([]string, 0, len(used))
	for m := range used {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

// moduleOf returns the longest module path that the import lies below: one module's path may begin with another's.
func moduleOf(modules []string, imported string) string {
	best := ""
	for _, m := range modules {
		if below(imported, m) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

func exists(repo fs.FS, name string) bool {
	_, err := fs.Stat(repo, name)
	return err == nil
}
