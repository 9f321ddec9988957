package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"lockstep/config"
)

// dialTimeout bounds one connection until TLS stands. Produce and fetch loops have no deadline of their own.
const dialTimeout = 10 * time.Second

// auth opens connections as the configuration says. Certificate files and secrets are read again for every
// connection, so that they can be renewed while the service runs.
type auth struct {
	cfg config.Cluster
	tcp func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newAuth(cfg config.Cluster, dialer func(context.Context, string, string) (net.Conn, error)) (*auth, error) {
	if dialer == nil {
		dialer = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	a := &auth{cfg: cfg, tcp: dialer}
	if cfg.TLS != nil {
		if _, err := a.tlsConfig("localhost:9092"); err != nil {
			return nil, err
		}
	}
	if cfg.SASL != nil && a.mechanism() == nil {
		return nil, fmt.Errorf("use sasl mechanism %q: want plain, scram-sha-256 or scram-sha-512", cfg.SASL.Mechanism)
	}
	return a, nil
}

// dial opens one connection, with TLS where it is configured.
func (a *auth) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errNoAnswer)
	defer cancel()
	conn, err := a.tcp(ctx, network, addr)
	if err != nil || a.cfg.TLS == nil {
		return conn, err
	}
	tc, err := a.handshake(ctx, conn, addr)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("tls handshake with %s: %w", addr, err)
	}
	return tc, nil
}

func (a *auth) handshake(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	cfg, err := a.tlsConfig(addr)
	if err != nil {
		return nil, err
	}
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return tc, nil
}

// tlsConfig reads the certificate files as they are now.
func (a *auth) tlsConfig(addr string) (*tls.Config, error) {
	t := a.cfg.TLS
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("read broker address %q: %w", addr, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: host,
		// An operator asked for it in so many words; config's documentation says what it gives up.
		InsecureSkipVerify: t.InsecureSkipVerify,
	}
	if t.ServerName != "" {
		cfg.ServerName = t.ServerName
	}
	if t.CAFile != "" {
		if cfg.RootCAs, err = readCAs(t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile == "" && t.KeyFile == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, &certError{fmt.Errorf("load cert_file %q with key_file %q: %w", t.CertFile, t.KeyFile, err)}
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

func readCAs(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, &certError{fmt.Errorf("read ca_file: %w", err)}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &certError{fmt.Errorf("read ca_file %s: it holds no PEM certificate", file)}
	}
	return pool, nil
}

// mechanism returns the configured SASL mechanism, nil for none. The password is revealed at each authentication.
func (a *auth) mechanism() sasl.Mechanism {
	if a.cfg.SASL == nil {
		return nil
	}
	switch strings.ToLower(a.cfg.SASL.Mechanism) {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := a.password()
			return plain.Auth{User: a.cfg.SASL.Username, Pass: pass}, err
		})
	case "scram-sha-256":
		return scram.Sha256(a.scram)
	case "scram-sha-512":
		return scram.Sha512(a.scram)
	}
	return nil
}

func (a *auth) scram(context.Context) (scram.Auth, error) {
	pass, err := a.password()
	return scram.Auth{User: a.cfg.SASL.Username, Pass: pass}, err
}

// password reads the secret anew. Its error names where the secret should be, never what it is.
func (a *auth) password() (string, error) {
	pass, err := a.cfg.SASL.Password.Reveal()
	if err != nil {
		return "", &secretError{user: a.cfg.SASL.Username, err: err}
	}
	if pass == "" {
		return "", &secretError{user: a.cfg.SASL.Username, err: errors.New("it is empty")}
	}
	return pass, nil
}

// secretError says that the password of a user cannot be read just now.
type secretError struct {
	user string
	err  error
}

func (e *secretError) Error() string {
	return fmt.Sprintf("read sasl password of user %q: %v", e.user, e.err)
}

func (e *secretError) Unwrap() error { return e.err }

// certError says that a certificate or key file cannot be used just now.
type certError struct{ error }

func (e *certError) Unwrap() error { return e.error }
