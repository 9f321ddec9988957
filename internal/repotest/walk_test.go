package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// repository returns the files of the repository this test stands in.
func repository(t *testing.T) fs.FS {
	t.Helper()
	const root = "../.."
	if _, err := os.Stat(root + "/go.mod"); err != nil {
		t.Fatalf("find the repository: %v", err)
	}
	return os.DirFS(root)
}

// generated are folders and files that are not part of the repository, or not written by people.
func generated(name string, d fs.DirEntry) bool {
	base := path.Base(name)
	switch {
	case d.IsDir():
		return name != "." && strings.HasPrefix(base, ".") && base != ".ci" || name == "bin" || name == "dist" || name == "data"
	default:
		return name == "bench/out.json" || strings.HasSuffix(base, ".test") || strings.HasSuffix(base, ".prof")
	}
}

// eachFile calls fn for every file that keep accepts.
func eachFile(t *testing.T, repo fs.FS, keep func(name string) bool, fn func(name string)) {
	t.Helper()
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case generated(name, d):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && keep(name):
			fn(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// source is one parsed Go file. File is relative to the repository; Dir is its package's folder.
type source struct {
	File, Dir string
	Test      bool
	AST       *ast.File
}

// imports returns the import paths of the file.
func (s source) imports() []string {
	var out []string
	for _, i := range s.AST.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// sources parses every Go file, whatever its build tags.
func sources(t *testing.T, repo fs.FS, mode parser.Mode) []source {
	t.Helper()
	var out []source
	isGo := func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/")
	}
	eachFile(t, repo, isGo, func(name string) {
		f, err := parser.ParseFile(token.NewFileSet(), name, read(t, repo, name), mode)
		if err != nil {
			t.Fatalf("parse %s: %v", name, err)
		}
		out = append(out, source{File: name, Dir: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"), AST: f})
	})
	if len(out) == 0 {
		t.Fatal("no Go file found: the walk is broken")
	}
	return out
}

func read(t *testing.T, repo fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(repo, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
