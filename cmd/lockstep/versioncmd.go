package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = ""

// buildVersion is the version set by the build, else the revision that the Go tool recorded.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput("table", "json"); err != nil {
				return err
			}
			v := map[string]any{"schema": 1, "version": buildVersion(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			t := &table{head: []string{"VERSION", "GO", "PLATFORM"}}
			t.add(buildVersion(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
			return a.print(v, t)
		},
	}
}
