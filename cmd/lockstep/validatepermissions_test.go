package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"lockstep/internal/grants"
	"lockstep/internal/kafkatest"
)

func topicGrant(name string, op grants.Operation, use string) grants.Grant {
	return grants.Grant{Resource: grants.Topic, Name: grants.Name{Text: name}, Operation: op, For: use}
}

func asAdmin() (grants.Admin, error) {
	return grants.Admin{Bootstrap: "10.0.0.1:9092", Principal: "User:standby"}, nil
}

func TestFinding_Permissions(t *testing.T) {
	t.Parallel()
	read, write := topicGrant("orders", grants.Read, "reading"), topicGrant("orders", grants.Write, "writing")
	for name, tc := range map[string]struct {
		report   grants.Report
		result   string
		detail   string
		commands int
		options  int
	}{
		"no authorizer": {grants.Report{}, resultOK, "no authorizer", 0, 0},
		"all given":     {grants.Report{Authorizer: true}, resultOK, "everything that the link needs", 0, 0},
		"only options":  {grants.Report{Authorizer: true, Options: []grants.Grant{read}}, resultOK, "1 grant not given that it can do without", 0, 1},
		"missing":       {grants.Report{Authorizer: true, Missing: []grants.Grant{read, write}}, resultFailed, "2 grants missing", 1, 0},
		"later":         {grants.Report{Authorizer: true, Later: []grants.Grant{read}}, resultWarning, "not for those to come", 1, 0},
		"not known":     {grants.Report{Authorizer: true, Unknown: []grants.Grant{read}}, resultWarning, "the cluster does not tell", 0, 1},
		"missing wins":  {grants.Report{Authorizer: true, Missing: []grants.Grant{read}, Unknown: []grants.Grant{write}}, resultFailed, "1 grant missing; 1 grant not known", 1, 1},
		"barred": {grants.Report{Authorizer: true, Barred: []grants.Barred{{Grant: read, Topics: []string{"orders"}}}}, resultFailed,
			"READ on topic orders is given, but a rule stands against it on orders", 0, 0},
	} {
		f := finding{Result: resultOK}
		if err := f.permissions(tc.report, asAdmin); err != nil {
			t.Fatal(err)
		}
		if f.Result != tc.result || !strings.Contains(f.Detail, tc.detail) || len(f.Commands) != tc.commands || len(f.Options) != tc.options {
			t.Errorf("%s: %+v", name, f)
		}
	}
	f := finding{Result: resultOK}
	if err := f.permissions(grants.Report{Authorizer: true}, func() (grants.Admin, error) { return grants.Admin{}, errors.New("no certificate") }); err == nil {
		t.Error("a principal that nobody can tell is no error")
	}
}

// A command is printed as one line that nothing else is on, whatever its length, and as an element of a list in JSON.
func TestPrintFindings_CommandsCanBeCopied(t *testing.T) {
	t.Parallel()
	f := finding{What: "permissions on cluster backup for link dr", Result: resultOK}
	long := topicGrant(strings.Repeat("x", 200), grants.Read, "reading back")
	if err := f.permissions(grants.Report{Authorizer: true, Missing: []grants.Grant{long}, Options: []grants.Grant{topicGrant("o", grants.Delete, "emptying")}}, asAdmin); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"table", "json", "csv"} {
		var out bytes.Buffer
		a := &app{stdout: &out, output: output}
		if err := a.printFindings([]finding{f}); err == nil {
			t.Error("a missing permission is no failure")
		}
		switch output {
		case "table":
			lines := "\n# reading back\n" + f.Commands[0] + "\n"
			if !strings.Contains(out.String(), lines) || !strings.Contains(out.String(), "\n# emptying\n"+f.Options[0].Command+"\n") {
				t.Errorf("lacks %q:\n%s", lines, &out)
			}
		case "json":
			var got struct{ Checks []finding }
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Checks) != 1 || len(got.Checks[0].Commands) != 1 || got.Checks[0].Options[0] != f.Options[0] {
				t.Errorf("%v: %s", err, &out)
			}
		case "csv":
			if !strings.Contains(out.String(), "what to do,"+f.Commands[0]) {
				t.Errorf("lacks the command:\n%s", &out)
			}
		}
	}
}

// Where brokers check nothing, or allow everything, permissions are no reason to fail.
func TestValidate_PermissionsOfFakes(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	out, errs, code := lockstep(t, "validate", "-c", configFor(t, src, dst))
	if code != exitOK || !strings.Contains(out, "permissions on cluster primary") || !strings.Contains(out, "permissions on cluster backup") {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
}
