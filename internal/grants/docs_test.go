package grants

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../../docs/permissions.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every permission that a link can need is in the page's table, for the cluster that it is on.
func TestDocs_ListEveryGrant(t *testing.T) {
	t.Parallel()
	rows := strings.Split(readPage(t), "\n")
	listed := func(cluster string, g Grant) bool {
		kind := strings.ReplaceAll(string(g.Resource), "-", " ") // the page says "transactional id"
		return slices.ContainsFunc(rows, func(row string) bool {
			cells := strings.Split(row, "|")
			return len(cells) > 4 && strings.TrimSpace(cells[1]) == cluster && strings.Contains(cells[2], kind) &&
				slices.Contains(strings.FieldsFunc(cells[3], func(r rune) bool { return strings.ContainsRune(" ,;", r) }), string(g.Operation))
		})
	}
	for name, l := range links() {
		for cluster, side := range map[string]Side{"source": Source, "target": Target} {
			own := onTarget()
			own.Scratch, own.Old = "lockstep.probe.", true
			if side == Source {
				own = Own{Kept: []string{"mm2-offset-syncs.backup.internal"}}
			}
			for _, g := range Needed(l, side, own) {
				if !listed(cluster, g) && g.For != "a warning when a topic for readers of MirrorMaker 2 is not compacted" {
					t.Errorf("%s, %s: %s lacks %s (%s)", name, cluster, page, g, g.For)
				}
			}
		}
	}
}

var sends = regexp.MustCompile(`kmsg\.NewPtr([A-Za-z]+)Request\(`)

// Every request that the product sends is on the page, so that nobody sends a new one without saying what it takes.
func TestDocs_ListEveryRequest(t *testing.T) {
	t.Parallel()
	text, found := readPage(t), 0
	word := func(name string) bool { return regexp.MustCompile(`\b` + name + `\b`).MatchString(text) }
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "kafkatest" || d.Name() == "bench" || path != "../.." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range sends.FindAllStringSubmatch(string(source), -1) {
			if found++; !word(m[1]) {
				t.Errorf("%s lacks %s, which %s sends", page, m[1], path)
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Fatalf("%d requests found: %v", found, err)
	}
}
