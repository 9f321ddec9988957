package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
)

// newTestClient returns a client of a real handler over b.
func newTestClient(t *testing.T, h http.Handler) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := NewClient(srv.URL, newHTTPClient(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClient_GivesWhatTheBackendGave(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newTestClient(t, Handler(f, nil, nil))
	ctx := t.Context()
	check := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", what, d)
		}
	}
	links, err := c.Links(ctx)
	check("links", links, f.links, err)
	link, err := c.Link(ctx, "dr")
	check("link", link, f.links[0], err)
	lanes, err := c.Lanes(ctx, "dr")
	check("lanes", lanes, f.lanes, err)
	lanes, err = c.FilteredLanes(ctx, "dr", LaneFilter{Topics: []string{"orders", "x"}, States: []string{"stopped"}})
	check("filtered lanes", lanes, f.lanes[1:], err)
	lane, err := c.Lane(ctx, "dr", "orders", 3)
	want, wantErr := f.Lane(ctx, "dr", "orders", 3)
	check("lane", lane, want, errors.Join(err, wantErr))
	groups, err := c.Groups(ctx, "dr")
	check("groups", groups, f.groups, err)
	groups, err = c.FilteredGroups(ctx, "dr", GroupFilter{States: []string{"excluded"}})
	check("filtered groups", groups, f.groups[2:], err)
	groups, err = c.FilteredGroups(ctx, "dr", GroupFilter{})
	check("groups without those aside", groups, f.groups[:2], err)
	group, err := c.Group(ctx, "dr", "eu/audit #1")
	wantGroup, wantErr := f.Group(ctx, "dr", "eu/audit #1")
	check("group", group, wantGroup, errors.Join(err, wantErr))
	history, err := c.GroupHistory(ctx, "dr", "billing")
	wantHistory, wantErr := f.GroupHistory(ctx, "dr", "billing")
	check("history", history, wantHistory, errors.Join(err, wantErr))
	gaps, err := c.Gaps(ctx, "dr")
	check("gaps", gaps, f.gaps, err)
	lag, err := c.Lag(ctx, "dr")
	check("lag", lag, LagOf(f.lanes), err)
	req := TranslateRequest{Offsets: []Position{{"orders", 0, 12345}, {"orders", 1, 5}}}
	offsets, err := c.Translate(ctx, "dr", req)
	wantOffsets, wantErr := f.Translate(ctx, "dr", req)
	check("translate", offsets, wantOffsets, errors.Join(err, wantErr))
	order := model.Order{Kind: model.OrderRetry, Lanes: []model.LaneRef{{Topic: "orders"}, {Topic: "orders", Partition: 1}}, By: "ann@ops"}
	steps, err := c.Order(ctx, "dr", order)
	wantSteps, wantErr := f.Order(ctx, "dr", order)
	check("order", steps, wantSteps, errors.Join(err, wantErr))
	check("order as it came", f.orders[0], order, nil)
	check("ready", nil, nil, c.Ready(ctx))
}

func TestClient_ErrorsKeepCodeAndHint(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.notReady = errors.New("link dr has no owner yet")
	c := newTestClient(t, Handler(f, nil, nil))
	_, err := c.Lane(t.Context(), "dr", "orders", 99)
	want := NotFound("lockstep lanes list", "link %q has no lane %s/%d", "dr", "orders", 99)
	var got *Error
	if !errors.As(err, &got) || !cmp.Equal(want, got) {
		t.Errorf("got %#v, want %#v", err, want)
	}
	if err := c.Ready(t.Context()); !errors.As(err, &got) || got.Code != CodeNotReady || !strings.Contains(err.Error(), "no owner yet") {
		t.Errorf("ready: %v", err)
	}
}

func TestClient_NamesAreEscaped(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.links[0].Name = "a/b c?d%2F"
	c := newTestClient(t, Handler(f, nil, nil))
	if _, err := c.Link(t.Context(), f.links[0].Name); err != nil {
		t.Error(err)
	}
	if _, err := c.Lane(t.Context(), f.links[0].Name, "orders", 0); err != nil {
		t.Error(err)
	}
}

func TestClient_RefusesStrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"newer schema":      {200, `{"schema":2,"links":[]}`, "schema 2"},
		"not lockstep":      {200, `<html>`, "not lockstep"},
		"a proxy's refusal": {502, `<html>`, "502 Bad Gateway"},
		"wrong field type":  {200, `{"schema":1,"links":"x"}`, "links"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newTestClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			if _, err := client.Links(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestClient_NobodyListens(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c, err := NewClient(srv.URL, newHTTPClient(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Links(t.Context()); err == nil || !strings.Contains(err.Error(), "--server") {
		t.Errorf("the error names no way out: %v", err)
	}
}

func TestNewClient_Addresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"127.0.0.1:7480", "localhost", "ftp://x", "http://", "::"} {
		if _, err := NewClient(bad, nil); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"", "http://127.0.0.1:7480/", "https://example.com/lockstep"} {
		if _, err := NewClient(good, nil); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
