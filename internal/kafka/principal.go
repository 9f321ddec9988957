package kafka

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"

	"lockstep/config"
)

// Principal returns whom a cluster's brokers take a client with these settings for, as Kafka writes it: the SASL user, else
// the subject of the TLS certificate, else User:ANONYMOUS. Brokers with a principal builder or mapping rules of their own
// may see it otherwise. The error is that the certificate cannot be read.
func Principal(c config.Cluster) (string, error) {
	switch {
	case c.SASL != nil:
		return "User:" + c.SASL.Username, nil
	case c.TLS == nil || c.TLS.CertFile == "":
		return "User:ANONYMOUS", nil
	}
	file, err := os.ReadFile(c.TLS.CertFile)
	if err != nil {
		return "", fmt.Errorf("read cert_file: %w", err)
	}
	block, _ := pem.Decode(file)
	if block == nil {
		return "", fmt.Errorf("read cert_file %q: it holds no PEM", c.TLS.CertFile)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("read cert_file %q: %w", c.TLS.CertFile, err)
	}
	name, err := distinguishedName(cert.RawSubject)
	if err != nil {
		return "", fmt.Errorf("read the subject in cert_file %q: %w", c.TLS.CertFile, err)
	}
	return "User:" + name, nil
}

// attribute is one part of a distinguished name, as it is encoded.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// keywords are the attributes that Java's X500Principal.getName spells out; all others go by their number.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// distinguishedName writes a name as Java does by RFC 2253, which is what Kafka's brokers compare: the last part first.
func distinguishedName(raw []byte) (string, error) {
	var rdns []asn1.RawValue
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil {
		return "", err
	}
	slices.Reverse(rdns)
	parts := make([]string, 0, len(rdns))
	for _, rdn := range rdns {
		var set []attribute
		if _, err := asn1.UnmarshalWithParams(rdn.FullBytes, &set, "set"); err != nil {
			return "", err
		}
		texts := make([]string, 0, len(set))
		for _, a := range set {
			texts = append(texts, a.text())
		}
		parts = append(parts, strings.Join(texts, "+"))
	}
	return strings.Join(parts, ","), nil
}

func (a attribute) text() string {
	var value string
	keyword, known := keywords[a.Type.String()]
	if _, err := asn1.Unmarshal(a.Value.FullBytes, &value); !known || err != nil {
		return a.Type.String() + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return keyword + "=" + escape(value)
}

// escape marks what would end or change a value. A blank counts at its beginning and its end.
func escape(value string) string {
	inner := strings.Trim(value, " ")
	lead := len(value) - len(strings.TrimLeft(value, " "))
	trail := len(value) - lead - len(inner)
	var b strings.Builder
	b.WriteString(strings.Repeat(`\ `, lead))
	for _, r := range inner {
		if strings.ContainsRune(`,=+<>#;"\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	b.WriteString(strings.Repeat(`\ `, max(0, trail)))
	return b.String()
}
