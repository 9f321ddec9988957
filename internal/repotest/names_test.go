package repotest

import (
	"go/ast"
	"go/parser"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// registries are hosts of package registries, in pieces so that this file does not name them. Where packages come from
// is a setting of the machine that builds, not of the project.
var registries = [][]string{
	{"proxy", "golang", "org"},
	{"sum", "golang", "org"},
	{"goproxy", "io"},
	{"goproxy", "cn"},
	{"repo", "maven", "apache", "org"},
	{"repo1", "maven", "org"},
	{"central", "sonatype", "com"},
	{"registry", "npmjs", "org"},
	{"pypi", "org"},
	{"pythonhosted", "org"},
	{"crates", "io"},
	{"deb", "debian", "org"},
	{"security", "debian", "org"},
}

func TestFiles_NameNoRegistry(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	all := func(string) bool { return true }
	eachFile(t, repo, all, func(name string) {
		text := read(t, repo, name)
		for _, pieces := range registries {
			if host := strings.Join(pieces, "."); strings.Contains(text, host) {
				t.Errorf("%s names a package registry's host (%s)", name, strings.Join(pieces, " "))
			}
		}
	})
}

func TestPackages_HaveAComment(t *testing.T) {
	t.Parallel()
	comments := packageComments(t, repository(t))
	for dir, text := range comments {
		if !strings.HasPrefix(text, "Package ") && !strings.HasPrefix(text, "Command ") {
			t.Errorf("%s: no package comment that begins with \"Package %s\"", dir, path.Base(dir))
		}
	}
}

// packageComments returns each package folder's comment, "" where there is none. Folders with tests only are left out.
func packageComments(t *testing.T, repo fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range sources(t, repo, parser.ParseComments|parser.PackageClauseOnly) {
		if s.Test {
			continue
		}
		out[s.Dir] += s.AST.Doc.Text()
	}
	return out
}

// testNames returns every test, fuzz target, benchmark and example.
func testNames(t *testing.T, repo fs.FS) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, s := range sources(t, repo, parser.SkipObjectResolution) {
		if !s.Test {
			continue
		}
		for _, d := range s.AST.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				out[f.Name.Name] = true
			}
		}
	}
	return out
}
