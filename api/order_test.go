package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lockstep/internal/model"
)

func TestHandler_OrdersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no body":                  ``,
		"unknown field":            `{"kind":"pause","force":true}`,
		"no kind":                  `{}`,
		"pause of lanes":           `{"kind":"pause","lanes":[{"topic":"t","partition":0}]}`,
		"pause of all":             `{"kind":"pause","all":true}`,
		"retry without lanes":      `{"kind":"retry"}`,
		"retry of lanes and all":   `{"kind":"retry","all":true,"lanes":[{"topic":"t","partition":0}]}`,
		"retry with a target":      `{"kind":"retry","all":true,"to":5}`,
		"skip without lane":        `{"kind":"skip","to":5}`,
		"skip of all":              `{"kind":"skip","all":true,"to":5}`,
		"skip of two":              `{"kind":"skip","to":5,"lanes":[{"topic":"t","partition":0},{"topic":"t","partition":1}]}`,
		"skip to before the start": `{"kind":"skip","to":-1,"lanes":[{"topic":"t","partition":0}]}`,
		"adopt without topics":     `{"kind":"adopt"}`,
		"adopt from the middle":    `{"kind":"adopt","topics":["t"],"from":"middle"}`,
		"accept with a start":      `{"kind":"accept","topics":["t"],"from":"latest"}`,
		"lane without topic":       `{"kind":"retry","lanes":[{"partition":0}]}`,
		"lane below zero":          `{"kind":"retry","lanes":[{"topic":"t","partition":-1}]}`,
		"pause of groups":          `{"kind":"pause","groups":["g"]}`,
		"accept of both":           `{"kind":"accept","groups":["g"],"topics":["t"]}`,
		"group without name":       `{"kind":"accept","groups":["g",""]}`,
		"topic without name":       `{"kind":"accept","topics":[""]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			w := ask(t, Handler(f, nil, nil), "POST", "/api/v1/links/dr/orders", body)
			var got errorAnswer
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Error == nil {
				t.Fatalf("no error in the answer: %v\n%s", err, w.Body)
			}
			if w.Code != 400 || got.Error.Code != CodeBadRequest || got.Error.Hint == "" || len(f.orders) > 0 {
				t.Errorf("status %d, %+v; %d orders reached the backend", w.Code, got.Error, len(f.orders))
			}
		})
	}
}

func TestHandler_OrdersThatMakeSense(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"kind":"pause"}`, `{"kind":"pause","topics":["a"]}`, `{"kind":"resume","reason":"done"}`, `{"kind":"resume","topics":["a"]}`, `{"kind":"accept"}`, `{"kind":"accept","topics":["a","b"]}`, `{"kind":"accept","groups":["a","b c"],"dry_run":true}`,
		`{"kind":"retry","all":true}`, `{"kind":"rebuild","lanes":[{"topic":"t","partition":3}],"dry_run":true}`,
		`{"kind":"skip","to":5,"lanes":[{"topic":"t","partition":0}]}`, `{"kind":"adopt","topics":["t"],"from":"latest"}`,
	} {
		f := newFake()
		if w := ask(t, Handler(f, nil, nil), "POST", "/api/v1/links/dr/orders", body); w.Code != 200 || len(f.orders) != 1 {
			t.Errorf("%s: status %d, %d orders: %s", body, w.Code, len(f.orders), w.Body)
		}
	}
}

func TestHandler_OrderHasItsTime(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{"": time.Minute, "?timeout=5s": 5 * time.Second, "?timeout=2m": 2 * time.Minute} {
		f := newFake()
		if w := ask(t, Handler(f, nil, nil), "POST", "/api/v1/links/dr/orders"+query, `{"kind":"pause"}`); w.Code != 200 {
			t.Fatalf("%q: status %d", query, w.Code)
		}
		if f.left > want || f.left < want-4*time.Second {
			t.Errorf("%q: %v were left, want about %v", query, f.left, want)
		}
	}
	for _, query := range []string{"?timeout=5", "?timeout=-1s", "?timeout=1h", "?timeout=soon"} {
		if w := ask(t, Handler(newFake(), nil, nil), "POST", "/api/v1/links/dr/orders"+query, `{"kind":"pause"}`); w.Code != 400 {
			t.Errorf("%q: status %d, want 400", query, w.Code)
		}
	}
}

// slowBackend's orders take until their context ends.
type slowBackend struct {
	*fakeBackend
	began chan struct{}
	ended chan error
}

func newSlow() slowBackend {
	return slowBackend{newFake(), make(chan struct{}, 1), make(chan error, 1)}
}

func (s slowBackend) Order(ctx context.Context, _ string, _ model.Order) ([]model.OrderStep, error) {
	s.began <- struct{}{}
	<-ctx.Done()
	s.ended <- ctx.Err()
	return []model.OrderStep{{Subject: "dr"}}, nil
}

// An order takes longer than the connection's limits allow a question, and ends at its own time with an answer.
func TestClient_OrderOutlivesTheLimitsOfQuestions(t *testing.T) {
	t.Parallel()
	s := newSlow()
	srv := httptest.NewUnstartedServer(Handler(s, nil, nil))
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	srv.Start()
	t.Cleanup(srv.Close)
	c, err := NewClient(srv.URL, newHTTPClient(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	steps, err := c.Order(ctx, "dr", model.Order{Kind: model.OrderPause})
	if err != nil || len(steps) != 1 || steps[0].Done {
		t.Fatalf("steps %+v, %v", steps, err)
	}
	if err := <-s.ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the order ended by %v", err)
	}
}

func TestClient_GivenUpOrderEndsTheServicesToo(t *testing.T) {
	t.Parallel()
	s := newSlow()
	c := newTestClient(t, Handler(s, nil, nil))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.began
		cancel()
	}()
	if _, err := c.Order(ctx, "dr", model.Order{Kind: model.OrderPause}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if err := <-s.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the order ended by %v", err)
	}
}

func TestRefused_IsAConflict(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.err = Refused("start lockstep run", "no service runs here")
	if w := ask(t, Handler(f, nil, nil), "POST", "/api/v1/links/dr/orders", `{"kind":"pause"}`); w.Code != http.StatusConflict {
		t.Errorf("status %d", w.Code)
	}
}
