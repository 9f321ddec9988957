package kafka

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"lockstep/config"
	"lockstep/internal/model"
)

// authority is a CA that tests issue certificates with.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = newKey(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns certificate and key as PEM, for a name and for 127.0.0.1 unless it is only for a name.
func (a *authority) issue(name string, ips ...net.IP) (certPEM, keyPEM []byte) {
	a.t.Helper()
	key := newKey(a.t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	kder, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", kder)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) pem() []byte { return pemOf("CERTIFICATE", a.cert.Raw) }

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server returns a listener's TLS settings with a certificate for the name, and for 127.0.0.1 when ip is set.
func (a *authority) server(name string, ip bool) *tls.Config {
	a.t.Helper()
	var ips []net.IP
	if ip {
		ips = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	cert, key := a.issue(name, ips...)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ping tries a new connection and one question over it.
func ping(t *testing.T, cfg config.Cluster, opts Options) error {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = 3 * time.Second
	}
	_, err := dialConfig(t, cfg, opts).ID(testContext(t))
	return err
}

func checkNotAuthorized(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("it was let in")
	}
	if action, reason := Classify(err); action != Wait || reason != model.ReasonNotAuthorized {
		t.Errorf("Classify(%v) = %v, %v", err, action, reason)
	}
}

func TestAuth_TLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	fake := newFake(t, kfake.NumBrokers(2), kfake.TLS(ca.server("broker.test", true)))
	named := newFake(t, kfake.NumBrokers(1), kfake.TLS(ca.server("broker.test", false)))
	dir := t.TempDir()
	caFile, strangerFile := write(t, dir, "ca.pem", ca.pem()), write(t, dir, "stranger.pem", stranger.pem())
	cluster := func(f *kfake.Cluster, s config.TLS) config.Cluster {
		return config.Cluster{Name: "tls", Brokers: f.ListenAddrs(), TLS: &s}
	}
	for name, cfg := range map[string]config.Cluster{
		"ca_file":              cluster(fake, config.TLS{CAFile: caFile}),
		"server_name":          cluster(named, config.TLS{CAFile: caFile, ServerName: "broker.test"}),
		"insecure_skip_verify": cluster(fake, config.TLS{InsecureSkipVerify: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := ping(t, cfg, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	for name, cfg := range map[string]config.Cluster{
		"another authority": cluster(fake, config.TLS{CAFile: strangerFile}),
		"system authority":  cluster(fake, config.TLS{}),
		"another name":      cluster(named, config.TLS{CAFile: caFile}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkNotAuthorized(t, ping(t, cfg, Options{}))
		})
	}
}

func TestAuth_PlainTextAgainstTLSAndTheOtherWayRound(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	secure := newFake(t, kfake.NumBrokers(1), kfake.TLS(ca.server("b", true)))
	plain := newFake(t, kfake.NumBrokers(1))
	for name, cfg := range map[string]config.Cluster{
		"plain client": {Name: "x", Brokers: secure.ListenAddrs()},
		"tls client":   {Name: "x", Brokers: plain.ListenAddrs(), TLS: &config.TLS{InsecureSkipVerify: true}},
	} {
		if err := ping(t, cfg, Options{Timeout: time.Second}); err == nil {
			t.Errorf("%s: no error", name)
		} else if action, _ := Classify(err); action == Stop || action == None {
			t.Errorf("%s: Classify(%v) = %v", name, err, action)
		}
	}
}

func TestAuth_MutualTLSReadsItsFilesForEachConnection(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	server := ca.server("b", true)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
	fake := newFake(t, kfake.NumBrokers(1), kfake.TLS(server))
	dir := t.TempDir()
	install := func(a *authority) (cert, key string) {
		c, k := a.issue("lockstep")
		return write(t, dir, "c.pem", c), write(t, dir, "k.pem", k)
	}
	cert, key := install(ca)
	cut := newCutter()
	c := dialConfig(t, config.Cluster{Name: "mtls", Brokers: fake.ListenAddrs(), TLS: &config.TLS{
		CAFile: write(t, dir, "ca.pem", ca.pem()), CertFile: cert, KeyFile: key,
	}}, Options{Dialer: cut.dial, Timeout: 2 * time.Second})
	ask := func() error { _, err := c.ID(testContext(t)); return err }
	for range 3 { // the first goes to the seed, the next ones to the broker that it named
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	install(stranger)
	if err := ask(); err != nil {
		t.Errorf("over the open connection: %v", err)
	}
	cut.cut("")
	checkNotAuthorized(t, ask())
	write(t, dir, "c.pem", []byte("half written"))
	checkNotAuthorized(t, ask())
	install(ca)
	if err := ask(); err != nil {
		t.Errorf("after the renewal: %v", err)
	}
	none := config.Cluster{Name: "mtls", Brokers: fake.ListenAddrs(), TLS: &config.TLS{CAFile: filepath.Join(dir, "ca.pem")}}
	checkNotAuthorized(t, ping(t, none, Options{}))
}

func TestAuth_SASL(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "pat", "pat-secret"),
		kfake.Superuser("SCRAM-SHA-256", "sam", "sam-secret"),
		kfake.Superuser("SCRAM-SHA-512", "sue", "sue-secret"))
	cluster := func(mechanism, user, pass string) config.Cluster {
		return config.Cluster{Name: "sasl", Brokers: fake.ListenAddrs(), SASL: &config.SASL{
			Mechanism: mechanism, Username: user, Password: config.NewSecret(pass),
		}}
	}
	for _, tc := range []struct{ mechanism, user string }{{"plain", "pat"}, {"scram-sha-256", "sam"}, {"scram-sha-512", "sue"}} {
		t.Run(tc.mechanism, func(t *testing.T) {
			t.Parallel()
			if err := ping(t, cluster(tc.mechanism, tc.user, tc.user+"-secret"), Options{}); err != nil {
				t.Errorf("right password: %v", err)
			}
			log := &lockedBuffer{}
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			// kfake closes the connection where Kafka says SASL_AUTHENTICATION_FAILED.
			err := ping(t, cluster(tc.mechanism, tc.user, "hunter2-wrong"), Options{Logger: logger, Timeout: time.Second})
			if err == nil {
				t.Fatal("it was let in")
			}
			if text := err.Error() + log.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "-secret") {
				t.Errorf("a secret shows in: %s", text)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		err := ping(t, config.Cluster{Name: "sasl", Brokers: fake.ListenAddrs()}, Options{Timeout: time.Second})
		if err == nil {
			t.Fatal("it was let in")
		}
		if action, _ := Classify(err); action == Stop || action == None {
			t.Errorf("Classify(%v) = %v", err, action)
		}
	})
}

func TestAuth_SASLOverTLSReadsTheSecretForEachConnection(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	fake := newFake(t, kfake.NumBrokers(1), kfake.TLS(ca.server("b", true)), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "sue", "second"))
	dir := t.TempDir()
	pass := write(t, dir, "pass", []byte("first\n"))
	cut := newCutter()
	c := dialConfig(t, config.Cluster{
		Name: "both", Brokers: fake.ListenAddrs(), TLS: &config.TLS{CAFile: write(t, dir, "ca.pem", ca.pem())},
		SASL: &config.SASL{Mechanism: "SCRAM-SHA-512", Username: "sue", Password: config.NewSecret("file:" + pass)},
	}, Options{Dialer: cut.dial, Timeout: 2 * time.Second})
	ask := func() error { _, err := c.ID(testContext(t)); return err }
	if ask() == nil {
		t.Fatal("it was let in with the old password")
	}
	write(t, dir, "pass", nil)
	checkNotAuthorized(t, ask())
	if err := os.Remove(pass); err != nil {
		t.Fatal(err)
	}
	err := ask()
	checkNotAuthorized(t, err)
	if !strings.Contains(err.Error(), pass) {
		t.Errorf("error %q does not name the file", err)
	}
	write(t, dir, "pass", []byte("second\n"))
	if err := ask(); err != nil {
		t.Errorf("after the change: %v", err)
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
