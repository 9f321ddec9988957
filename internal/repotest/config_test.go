package repotest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/config"
)

const configurationHead = `# Configuration

Every key, its default, what is allowed, and what it means. ` + "`lockstep config reference`" + ` prints the same as a commented file
that loads as it is, ` + "`lockstep config show`" + ` the settings in force. Defaults are overridden by the file, the file by the
environment (` + "`LOCKSTEP_`" + ` and the key, two underscores between levels), the environment by flags.

` + "`lockstep run`" + ` looks at its file every two seconds and takes over what changed once the new content stands still; SIGHUP makes it do
so at once. That works with files that are replaced and with links to files, as Kubernetes does it. Files that the configuration names
(passwords, certificates) are read again for each new connection, without any of this. What a change means for what runs:

- **at once**: copying goes on. Lanes of topics that are not selected any more end cleanly; selected again, they go on where they were.
- **by a clean restart of the link**: its lanes finish what was sent and start again at the same place, in the same term. Other links do
  not notice. A new link starts; one that was removed ends cleanly, and its state topic stays.
- **by a restart of lockstep**: the old value stays in force until then; ` + "`lockstep status`" + ` names what waits.

A file with faults changes nothing: all of them are logged with their places, ` + "`lockstep status`" + ` shows them, and the old configuration stays
in force. A link that has stopped by itself is started again by every reload.

This page is made from the table that parsing and checking use: ` + "`UPDATE_GOLDEN=1 go test ./internal/repotest`" + ` makes it anew.

`

func TestDocs_ConfigurationIsTheTable(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	want.WriteString(configurationHead)
	if err := config.WriteMarkdown(&want); err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/configuration.md"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(page, want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), string(got)); d != "" {
		t.Errorf("docs/configuration.md (UPDATE_GOLDEN=1 makes it anew): -want +got\n%s", d)
	}
}

// The first thing that people copy has to work.
func TestReadme_ConfigurationLoads(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, repository(t), "README.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d blocks of YAML, want one", len(blocks))
	}
	text := blocks[0][1]
	if n := strings.Count(text, "\n"); n != 6 {
		t.Errorf("the smallest configuration has %d lines; it is called the six-line file", n)
	}
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Source{File: file}); err != nil {
		t.Error(err)
	}
}
