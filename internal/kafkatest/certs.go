package kafkatest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certs are PEM files of a CA made for one cluster, and of a client that it vouches for.
type Certs struct {
	CAFile   string
	CertFile string // of the client "CN=client"
	KeyFile  string

	serverFile string // key and certificate of the brokers in one file
	config     *tls.Config
}

// authority signs certificates for one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCerts writes the files of a new authority into dir.
func NewCerts(dir string) (*Certs, error) {
	ca, caPEM, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("make test authority: %w", err)
	}
	serverCert, serverKey, err := ca.issue("broker")
	if err != nil {
		return nil, fmt.Errorf("make broker certificate: %w", err)
	}
	clientCert, clientKey, err := ca.issue("client")
	if err != nil {
		return nil, fmt.Errorf("make client certificate: %w", err)
	}
	c := &Certs{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key"), serverFile: filepath.Join(dir, "broker.pem")}
	for name, text := range map[string][]byte{c.CAFile: caPEM, c.CertFile: clientCert, c.KeyFile: clientKey, c.serverFile: append(serverKey, serverCert...)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, fmt.Errorf("write certificate: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	c.config = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	return c, nil
}

func newAuthority() (*authority, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	tmpl := template("lockstep test authority")
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, pemBlock("CERTIFICATE", der), err
}

// issue returns the certificate and the PKCS #8 key of name, for loopback addresses, as PEM.
func (a *authority) issue(name string) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	tmpl := template(name)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	tmpl.IPAddresses, tmpl.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	return pemBlock("CERTIFICATE", der), pemBlock("PRIVATE KEY", raw), err
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

func pemBlock(kind string, der []byte) []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // a bytes.Buffer does not fail
	return b.Bytes()
}
