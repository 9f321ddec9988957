package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Time limits of a connection. A client that sends its request slowly, or keeps an idle connection, holds a file
// descriptor that the copying needs.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownGrace     = 5 * time.Second
	maxHeaderBytes    = 64 << 10
)

// ListenLoopback opens addr ("127.0.0.1:7480"; port 0 takes a free one) and refuses an address that other machines
// reach: the interface has neither TLS nor tokens yet. The caller closes the listener, or hands it to Serve.
func ListenLoopback(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want host:port, for example 127.0.0.1:7480: %w", addr, err)
	}
	if !isLoopback(host) {
		return nil, fmt.Errorf("listen on %q: only a loopback address is allowed, since this release has neither TLS nor tokens; "+
			"for a scraper on another machine set metrics.listen", addr)
	}
	return Listen(ctx, addr)
}

// Listen opens addr, whatever it is. It is for MonitoringHandler only.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	return l, nil
}

// Serve answers requests on l until ctx ends, then lets running requests finish for five seconds and returns nil. It
// closes l. Any other end is an error.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(orDiscard(log).Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	// The context has ended, and the grace must not end with it.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := srv.Shutdown(grace)
	if err != nil {
		err = srv.Close()
	}
	if s := <-served; !errors.Is(s, http.ErrServerClosed) {
		err = errors.Join(err, s)
	}
	if err != nil {
		return fmt.Errorf("shut down http on %s: %w", l.Addr(), err)
	}
	return nil
}
