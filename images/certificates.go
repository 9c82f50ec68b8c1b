package images

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// HostCADir is where Debian and its kin keep certificates that the machine's
// owner added (update-ca-certificates(8)).
const HostCADir = "/usr/local/share/ca-certificates"

// Certificate is one certificate that this host trusts.
type Certificate struct {
	name string // from the digest, so that order and names are the host's no more
	pem  []byte
}

const (
	maxCertificateFile = 1 << 20
	maxCertificates    = 256
)

// HostCAs collects the certificates below the root of fsys, which the caller
// opens at HostCADir. A missing folder holds none. Only certificates are
// taken: a private key or a comment in the same file stays on the host.
func HostCAs(fsys fs.FS) ([]Certificate, error) {
	found := map[string]Certificate{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".crt" {
			return err
		}
		text, err := readCapped(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a link to nowhere
		}
		if err != nil {
			return err
		}
		for _, c := range certificates(text) {
			found[c.name] = c
		}
		if len(found) > maxCertificates {
			return fmt.Errorf("more than %d certificates", maxCertificates)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("collect the host's extra certificates in %s: %w", HostCADir, err)
	}
	all := make([]Certificate, 0, len(found))
	for _, c := range found {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Certificate) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

func readCapped(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxCertificateFile {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", name, maxCertificateFile)
	}
	return fs.ReadFile(fsys, name)
}

// certificates takes the valid certificates out of PEM text.
func certificates(text []byte) []Certificate {
	var all []Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			continue
		}
		var plain bytes.Buffer
		if err := pem.Encode(&plain, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			continue
		}
		name := fmt.Sprintf("host-%x.crt", sha256.Sum256(block.Bytes))
		all = append(all, Certificate{name: name, pem: plain.Bytes()})
	}
	return all
}
