package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/config"
	"lockstep/internal/kafkatest"
)

// subjects are distinguished names with what Kafka's brokers, which are Java, make of them.
func subjects(t *testing.T) map[string][]byte {
	t.Helper()
	attr := func(value string, oid ...int) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: oid, Value: value}
	}
	dc, uid, mail := []int{0, 9, 2342, 19200300, 100, 1, 25}, []int{0, 9, 2342, 19200300, 100, 1, 1}, []int{1, 2, 840, 113549, 1, 9, 1}
	several := pkix.RDNSequence{
		{attr("DE", 2, 5, 4, 6)}, {attr("Hessen", 2, 5, 4, 8)}, {attr("Bad Vilbel", 2, 5, 4, 7)}, {attr("Weg 1", 2, 5, 4, 9)},
		{attr("example", dc...)}, {attr("Shop & Co", 2, 5, 4, 10)}, {attr("it", 2, 5, 4, 11)}, {attr("u1", uid...)}, {attr("lockstep", 2, 5, 4, 3)},
	}
	out := map[string][]byte{}
	for want, rdns := range map[string]pkix.RDNSequence{
		"CN=lockstep,UID=u1,OU=it,O=Shop & Co,DC=example,STREET=Weg 1,L=Bad Vilbel,ST=Hessen,C=DE": several,
		`CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j`: {{attr(`a,b=c+d<e>f#g;h"i\j`, 2, 5, 4, 3)}},
		`CN=\ blank\ `:                    {{attr(" blank ", 2, 5, 4, 3)}},
		`CN=in   ner`:                     {{attr("in   ner", 2, 5, 4, 3)}},
		"CN=Ä ö,O=Köln":                   {{attr("Köln", 2, 5, 4, 10)}, {attr("Ä ö", 2, 5, 4, 3)}},
		"CN=two+OU=parts":                 {{attr("two", 2, 5, 4, 3), attr("parts", 2, 5, 4, 11)}},
		"CN=":                             {{attr("", 2, 5, 4, 3)}},
		"":                                {},
		"1.2.840.113549.1.9.1=#1303612e62,2.5.4.5=#130135,2.5.4.17=#13053132333435,CN=n": {{attr("n", 2, 5, 4, 3)}, {attr("12345", 2, 5, 4, 17)}, {attr("5", 2, 5, 4, 5)}, {attr("a.b", mail...)}},
	} {
		raw, err := asn1.Marshal(rdns)
		if err != nil {
			t.Fatal(err)
		}
		out[want] = raw
	}
	return out
}

func TestDistinguishedName(t *testing.T) {
	t.Parallel()
	for want, raw := range subjects(t) {
		if got, err := distinguishedName(raw); err != nil || got != want {
			t.Errorf("%q, want %q, %v", got, want, err)
		}
	}
	if got, err := distinguishedName([]byte{0x30, 0x05, 1}); err == nil {
		t.Errorf("a cut name is %q", got)
	}
}

// Java itself writes the names as we do.
func TestDistinguishedName_EqualsJavas(t *testing.T) {
	t.Parallel()
	java := kafkatest.NewJava(t, filepath.Join("testdata", "Subjects.java"))
	var want, stdin []string
	for name, raw := range subjects(t) {
		want, stdin = append(want, name), append(stdin, base64.StdEncoding.EncodeToString(raw))
	}
	got := java.Run(t, strings.Join(stdin, "\n")+"\n", "Subjects")
	if len(got) != len(want) {
		t.Fatalf("%d names of %d: %v", len(got), len(want), got)
	}
	for i, line := range got {
		name, err := base64.StdEncoding.DecodeString(line)
		if err != nil || string(name) != want[i] {
			t.Errorf("Java says %q, want %q, %v", name, want[i], err)
		}
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lockstep", Organization: []string{"Shop"}}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file, junk := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "junk.pem")
	for name, content := range map[string][]byte{file: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), junk: []byte("no PEM")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withCert := &config.TLS{CertFile: file}
	for name, tc := range map[string]struct {
		cfg       config.Cluster
		want, err string
	}{
		"plain text":          {config.Cluster{}, "User:ANONYMOUS", ""},
		"TLS, no certificate": {config.Cluster{TLS: &config.TLS{}}, "User:ANONYMOUS", ""},
		"certificate":         {config.Cluster{TLS: withCert}, "User:CN=lockstep,O=Shop", ""},
		"SASL over both":      {config.Cluster{TLS: withCert, SASL: &config.SASL{Username: "app"}}, "User:app", ""},
		"no such certificate": {config.Cluster{TLS: &config.TLS{CertFile: filepath.Join(dir, "none.pem")}}, "", "read cert_file"},
		"not a certificate":   {config.Cluster{TLS: &config.TLS{CertFile: junk}}, "", "no PEM"},
	} {
		got, err := Principal(tc.cfg)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
