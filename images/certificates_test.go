package images

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"
)

func certificate(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func TestHostCAsTakeCertificatesAndNothingElse(t *testing.T) {
	one, key := certificate(t, 1)
	two, _ := certificate(t, 2)
	host := fstest.MapFS{
		"both.crt":         {Data: append(append([]byte("a comment\n"), key...), one...)},
		"below/bundle.crt": {Data: append(append([]byte{}, two...), one...)},
		"other.pem":        {Data: two},
		"broken.crt":       {Data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no")})},
		"nowhere.crt":      {Data: []byte("missing"), Mode: fs.ModeSymlink},
	}
	got, err := HostCAs(host)
	if err != nil {
		t.Fatalf("HostCAs: %v", err)
	}
	if len(got) != 2 {
		t.Fatalf("HostCAs found %d certificates, want 2", len(got))
	}
	for _, c := range got {
		if bytes.Contains(c.pem, []byte("PRIVATE")) || bytes.Contains(c.pem, []byte("comment")) {
			t.Errorf("%s holds more than a certificate", c.name)
		}
		if !bytes.Equal(c.pem, one) && !bytes.Equal(c.pem, two) {
			t.Errorf("%s is no certificate of the host", c.name)
		}
		if strings.Contains(c.name, "/") {
			t.Errorf("name %q is a path", c.name)
		}
	}
}

func TestNoHostCAs(t *testing.T) {
	empty, err := HostCAs(fstest.MapFS{})
	if err != nil || len(empty) != 0 {
		t.Errorf("HostCAs of an empty folder = %v, %v", empty, err)
	}
	missing, err := fs.Sub(fstest.MapFS{}, "missing")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := HostCAs(missing); err != nil || len(got) != 0 {
		t.Errorf("HostCAs of a missing folder = %v, %v", got, err)
	}
}

func TestHostCAsAreBounded(t *testing.T) {
	big := fstest.MapFS{"big.crt": {Data: make([]byte, maxCertificateFile+1)}}
	if _, err := HostCAs(big); err == nil {
		t.Error("a file beyond the limit was read")
	}
}
