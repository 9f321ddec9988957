package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// ask sends one request to the handler as a program on this machine would.
func ask(t *testing.T, h http.Handler, method, path, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:7480"
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// golden compares got with testdata/name; UPDATE_GOLDEN=1 writes it anew.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatalf("answer is not JSON: %v\n%s", err, got)
	}
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, pretty.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), pretty.String()); d != "" {
		t.Errorf("%s (UPDATE_GOLDEN=1 accepts): -want +got\n%s", file, d)
	}
}

func TestHandler_Answers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		golden, method, path, body string
		status                     int
	}{
		{"status.json", "GET", "/api/v1/status", "", 200},
		{"link.json", "GET", "/api/v1/links/dr", "", 200},
		{"link_unknown.json", "GET", "/api/v1/links/nope", "", 404},
		{"lanes.json", "GET", "/api/v1/links/dr/lanes", "", 200},
		{"lanes_by_reason.json", "GET", "/api/v1/links/dr/lanes?state=too_large&topic=orders", "", 200},
		{"lanes_none.json", "GET", "/api/v1/links/empty/lanes", "", 200},
		{"lane.json", "GET", "/api/v1/links/dr/lanes/orders/0", "", 200},
		{"lane_unknown.json", "GET", "/api/v1/links/dr/lanes/orders/9", "", 404},
		{"lane_not_a_number.json", "GET", "/api/v1/links/dr/lanes/orders/one", "", 400},
		{"groups.json", "GET", "/api/v1/links/dr/groups", "", 200},
		{"groups_all.json", "GET", "/api/v1/links/dr/groups?all=true", "", 200},
		{"groups_by_state.json", "GET", "/api/v1/links/dr/groups?state=excluded&state=synced", "", 200},
		{"groups_none.json", "GET", "/api/v1/links/empty/groups", "", 200},
		{"groups_bad.json", "GET", "/api/v1/links/dr/groups?all=maybe", "", 400},
		{"group.json", "GET", "/api/v1/links/dr/groups/eu%2Faudit%20%231", "", 200},
		{"group_aside.json", "GET", "/api/v1/links/dr/groups/console-consumer-1", "", 200},
		{"group_unknown.json", "GET", "/api/v1/links/dr/groups/nope", "", 404},
		{"group_history.json", "GET", "/api/v1/links/dr/groups/billing/history", "", 200},
		{"topics.json", "GET", "/api/v1/links/dr/topics", "", 200},
		{"topics_all.json", "GET", "/api/v1/links/dr/topics?all=true", "", 200},
		{"topics_none.json", "GET", "/api/v1/links/empty/topics", "", 200},
		{"topics_bad.json", "GET", "/api/v1/links/dr/topics?all=maybe", "", 400},
		{"diff.json", "GET", "/api/v1/links/dr/diff?topic=orders", "", 200},
		{"diff_none.json", "GET", "/api/v1/links/empty/diff", "", 200},
		{"diff_unknown.json", "GET", "/api/v1/links/dr/diff?topic=nope", "", 404},
		{"order_sync.json", "POST", "/api/v1/links/dr/orders", `{"kind":"sync","topics":["orders"],"kinds":["configs"],"confirm":3}`, 200},
		{"order_sync_bad.json", "POST", "/api/v1/links/dr/orders", `{"kind":"sync","kinds":["users"]}`, 400},
		{"gaps.json", "GET", "/api/v1/links/dr/gaps", "", 200},
		{"gaps_none.json", "GET", "/api/v1/links/empty/gaps", "", 200},
		{"lag.json", "GET", "/api/v1/links/dr/lag", "", 200},
		{"translate.json", "POST", "/api/v1/links/dr/translate", `{"offsets":[{"topic":"orders","partition":0,"offset":12345},{"topic":"orders","partition":8,"offset":1}]}`, 200},
		{"translate_reverse.json", "POST", "/api/v1/links/dr/translate", `{"reverse":true,"offsets":[{"topic":"orders","partition":0,"offset":12339}]}`, 200},
		{"translate_none.json", "POST", "/api/v1/links/dr/translate", `{}`, 200},
		{"translate_bad.json", "POST", "/api/v1/links/dr/translate", `{"offset":1}`, 400},
		{"order.json", "POST", "/api/v1/links/dr/orders", `{"kind":"retry","lanes":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}],"by":"ann@ops","reason":"limit raised"}`, 200},
		{"order_plan.json", "POST", "/api/v1/links/dr/orders?timeout=5s", `{"kind":"skip","lanes":[{"topic":"orders","partition":0}],"to":18,"dry_run":true}`, 200},
		{"order_none.json", "POST", "/api/v1/links/dr/orders", `{"kind":"retry","all":true}`, 200},
		{"order_unknown.json", "POST", "/api/v1/links/dr/orders", `{"kind":"explode"}`, 400},
		{"order_link_unknown.json", "POST", "/api/v1/links/nope/orders", `{"kind":"pause"}`, 404},
		{"path_unknown.json", "GET", "/api/v2/status", "", 404},
		{"method_not_allowed.json", "DELETE", "/api/v1/status", "", 405},
	} {
		t.Run(c.golden, func(t *testing.T) {
			t.Parallel()
			w := ask(t, Handler(newFake(), nil, nil), c.method, c.path, c.body)
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			if ct := w.Header().Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type %q", ct)
			}
			golden(t, c.golden, w.Body.Bytes())
		})
	}
}

func TestHandler_MethodNotAllowedNamesTheAllowed(t *testing.T) {
	t.Parallel()
	w := ask(t, Handler(newFake(), nil, nil), "GET", "/api/v1/links/dr/translate", "")
	if w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

func TestHandler_ForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	h := Handler(newFake(), prometheus.NewRegistry(), nil)
	for host, want := range map[string]int{
		"127.0.0.1:7480": 200, "127.8.9.1": 200, "[::1]:7480": 200, "[::1]": 200, "localhost:7480": 200, "LOCALHOST": 200,
		"evil.example:7480": 403, "10.0.0.1:7480": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "": 403, "0.0.0.0": 403,
	} {
		for _, path := range []string{"/api/v1/status", "/healthz", "/metrics"} {
			w := ask(t, h, "GET", path, "", func(r *http.Request) { r.Host = host })
			if w.Code != want {
				t.Errorf("host %q, %s: status %d, want %d", host, path, w.Code, want)
			}
		}
	}
}

func TestHandler_ForeignPageCannotPost(t *testing.T) {
	t.Parallel()
	h := Handler(newFake(), nil, nil)
	post := func(edit func(*http.Request)) int {
		return ask(t, h, "POST", "/api/v1/links/dr/translate", `{}`, edit).Code
	}
	if c := post(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); c != 403 {
		t.Errorf("cross-site post: status %d, want 403", c)
	}
	if c := post(func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); c != 403 {
		t.Errorf("post with a foreign origin: status %d, want 403", c)
	}
	if c := post(func(*http.Request) {}); c != 200 {
		t.Errorf("post by a program: status %d, want 200", c)
	}
}

func TestHandler_TooLargeBodyIsRefused(t *testing.T) {
	t.Parallel()
	body := `{"offsets":[` + strings.Repeat(" ", maxBody) + `]}`
	if w := ask(t, Handler(newFake(), nil, nil), "POST", "/api/v1/links/dr/translate", body); w.Code != 400 {
		t.Errorf("status %d, want 400", w.Code)
	}
}

func TestHandler_BackendErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"unknown error":     {errors.New("read state: broken"), 500, CodeInternal},
		"time-out":          {fmt.Errorf("ask leader: %w", context.DeadlineExceeded), 504, CodeTimeout},
		"wrapped not found": {fmt.Errorf("find lane: %w", NotFound("h", "m")), 404, CodeNotFound},
		"own code":          {&Error{Code: "own", Message: "m"}, 500, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.err = c.err
			for _, path := range []string{"/api/v1/status", "/api/v1/links/dr", "/api/v1/links/dr/lanes", "/api/v1/links/dr/lanes/orders/0", "/api/v1/links/dr/gaps", "/api/v1/links/dr/lag"} {
				w := ask(t, Handler(f, nil, nil), "GET", path, "")
				var got errorAnswer
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Error == nil {
					t.Fatalf("%s: no error in the answer: %v\n%s", path, err, w.Body)
				}
				if w.Code != c.status || got.Error.Code != c.code || got.Schema != Schema {
					t.Errorf("%s: status %d, code %q, schema %d; want %d, %q", path, w.Code, got.Error.Code, got.Schema, c.status, c.code)
				}
			}
		})
	}
}

func TestHandler_HealthAndReadiness(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.err = errors.New("everything is broken")
	h := Handler(f, nil, nil)
	if w := ask(t, h, "GET", "/healthz", ""); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("healthz: %d %q", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/readyz", ""); w.Code != 200 {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
	f.notReady = errors.New("link dr has no owner yet")
	w := ask(t, h, "GET", "/readyz", "")
	if w.Code != 503 {
		t.Errorf("readyz of one that is not ready: %d", w.Code)
	}
	golden(t, "not_ready.json", w.Body.Bytes())
}

func TestHandler_Metrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "lockstep_test_total", Help: "Counts."})
	reg.MustRegister(c)
	c.Add(3)
	for name, h := range map[string]http.Handler{"api": Handler(newFake(), reg, nil), "monitoring": MonitoringHandler(newFake(), reg, nil)} {
		w := ask(t, h, "GET", "/metrics", "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), "lockstep_test_total 3\n") {
			t.Errorf("%s: status %d\n%s", name, w.Code, w.Body)
		}
	}
	if w := ask(t, Handler(newFake(), nil, nil), "GET", "/metrics", ""); w.Code != 404 {
		t.Errorf("without a gatherer: status %d, want 404", w.Code)
	}
}

func TestMonitoringHandler_AnyHostAndNothingElse(t *testing.T) {
	t.Parallel()
	h := MonitoringHandler(newFake(), prometheus.NewRegistry(), nil)
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/api/v1/status": 404, "/api/v1/links/dr/gaps": 404, "/": 404} {
		w := ask(t, h, "GET", path, "", func(r *http.Request) { r.Host = "lockstep.example:9480" })
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
}

// configured is a backend that runs by a configuration.
type configured struct {
	*fakeBackend
	config ConfigStatus
	err    error
}

func (c *configured) Config(context.Context) (ConfigStatus, error) { return c.config, c.err }

func TestHandler_StatusTellsTheConfiguration(t *testing.T) {
	t.Parallel()
	b := &configured{fakeBackend: newFake(), config: ConfigStatus{
		File: "lockstep.yaml", Hash: "9f86d0", LoadedAt: since,
		Pending: []ConfigChange{{Key: "node.id", Old: "n1", New: "n2"}},
		Failed:  &ConfigFailure{At: since, Hash: "60303a", Faults: []string{"lockstep.yaml:9: links[0].topic: unknown key"}},
	}}
	golden(t, "status_config.json", ask(t, Handler(b, nil, nil), http.MethodGet, "/api/v1/status", "").Body.Bytes())
	got, err := newTestClient(t, Handler(b, nil, nil)).Status(t.Context())
	if d := cmp.Diff(Status{Schema: Schema, Links: b.links, Config: &b.config}, got); err != nil || d != "" {
		t.Errorf("client: %v; -want +got\n%s", err, d)
	}
	b.err = errors.New("lost")
	if w := ask(t, Handler(b, nil, nil), http.MethodGet, "/api/v1/status", ""); w.Code != http.StatusInternalServerError {
		t.Errorf("status %d for an error of the backend", w.Code)
	}
}
