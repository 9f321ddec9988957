package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestListenLoopback_RefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":7480", "0.0.0.0:7480", "[::]:7480", "10.0.0.1:7480", "example.com:7480"} {
		l, err := ListenLoopback(t.Context(), addr)
		if err == nil {
			l.Close()
			t.Fatalf("%s was opened", addr)
		}
		if !strings.Contains(err.Error(), "metrics.listen") {
			t.Errorf("%s: the error names no way out: %v", addr, err)
		}
	}
	if _, err := ListenLoopback(t.Context(), "7480"); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("an address without a host: %v", err)
	}
}

func TestListenLoopback_OpensLoopback(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := ListenLoopback(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			t.Errorf("%s listens on %s", addr, ip)
		}
		l.Close()
	}
}

// serve runs h on a free port and returns its address, a way to end it, and its end.
func serve(t *testing.T, h http.Handler) (addr string, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	l, err := ListenLoopback(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h, nil) }()
	return l.Addr().String(), cancel, done
}

// newHTTPClient closes its connections with the test, so that no goroutine outlives it.
func newHTTPClient(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func TestServe_FinishesRunningRequests(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	addr, stop, ended := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "finished")
	}))
	type answer struct {
		body string
		err  error
	}
	answered := make(chan answer, 1)
	client := newHTTPClient(t)
	go func() {
		resp, err := client.Get("http://" + addr)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		answered <- answer{string(b), err}
	}()
	<-entered
	stop()
	select {
	case err := <-ended:
		t.Fatalf("Serve ended with a request running: %v", err)
	default:
	}
	close(release)
	if a := <-answered; a.err != nil || a.body != "finished" {
		t.Errorf("running request got %q, %v", a.body, a.err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServe_EndsWithTheListener(t *testing.T) {
	t.Parallel()
	l, err := ListenLoopback(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, http.NotFoundHandler(), nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}
