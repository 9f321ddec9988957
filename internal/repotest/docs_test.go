package repotest

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
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
	metricName  = regexp.MustCompile(`^lockstep(_[a-z]+){2,}$`)
	tableModule = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
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
	used := directModules(t, repo)
	var explained []string
	for _, m := range tableModule.FindAllStringSubmatch(read(t, repo, "docs/dependencies.md"), -1) {
		explained = append(explained, m[1])
	}
	for _, module := range used {
		if !slices.Contains(explained, module) {
			t.Errorf("docs/dependencies.md does not say why %s is used", module)
		}
	}
	for _, module := range explained {
		if !slices.Contains(used, module) {
			t.Errorf("docs/dependencies.md explains %s, which no file imports", module)
		}
	}
}

func TestDocs_EveryMetricIsListed(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	var documented []string
	for _, q := range quoted(read(t, repo, "docs/http.md")) {
		if metricName.MatchString(q) {
			documented = append(documented, q)
		}
	}
	made := metricNames(t, repo)
	for _, name := range made {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/http.md does not list the metric %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(made, name) {
			t.Errorf("docs/http.md lists the metric %s, which nothing makes", name)
		}
	}
}

// metricNames returns the metrics that the product names in its source.
func metricNames(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var out []string
	for _, s := range sources(t, repo, parser.SkipObjectResolution) {
		if s.Test {
			continue
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if name := strings.Trim(l.Value, "\"`"); metricName.MatchString(name) {
					out = append(out, name)
				}
			}
			return true
		})
	}
	return out
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
