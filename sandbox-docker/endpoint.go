package sandboxdocker

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// Endpoint finds the engine that the user's own docker command would use:
// DOCKER_HOST, else the context that DOCKER_CONTEXT or the docker
// configuration names, else the platform's default. getenv reads the user's
// environment and home is the user's home folder; nothing of a project counts.
func Endpoint(getenv func(string) string, home string) (engine.Endpoint, error) {
	if host := getenv("DOCKER_HOST"); host != "" {
		at := engine.Endpoint{Host: host}
		certs := getenv("DOCKER_CERT_PATH")
		if certs == "" {
			return checked(at, "DOCKER_HOST")
		}
		config, err := tlsFrom(certs, getenv("DOCKER_TLS_VERIFY") == "")
		if err != nil {
			return at, fmt.Errorf("read the certificates of DOCKER_CERT_PATH: %w", err)
		}
		at.TLS = config
		return checked(at, "DOCKER_HOST")
	}
	dir := getenv("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(home, ".docker")
	}
	name := getenv("DOCKER_CONTEXT")
	if name == "" {
		var err error
		if name, err = currentContext(dir); err != nil {
			return engine.Endpoint{}, err
		}
	}
	if name == "" || name == "default" {
		return engine.Endpoint{}, nil
	}
	at, err := fromContext(dir, name)
	if err != nil {
		return at, fmt.Errorf("read the docker context %q: %w; choose another with `docker context use`", name, err)
	}
	return checked(at, fmt.Sprintf("docker context %q", name))
}

func checked(at engine.Endpoint, source string) (engine.Endpoint, error) {
	if strings.HasPrefix(at.Host, "ssh://") {
		return at, fmt.Errorf("%s is %s: docker over ssh is %w; choose a local engine", source, at.Host, provider.ErrUnsupported)
	}
	return at, nil
}

func currentContext(dir string) (string, error) {
	var config struct{ CurrentContext string }
	err := readJSON(filepath.Join(dir, "config.json"), &config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the docker configuration: %w", err)
	}
	return config.CurrentContext, nil
}

// fromContext reads docker's context store: folders named by the SHA-256 of
// the context's name, with meta.json and, below tls, PEM files.
func fromContext(dir, name string) (engine.Endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := readJSON(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &meta); err != nil {
		return engine.Endpoint{}, err
	}
	docker := meta.Endpoints["docker"]
	at := engine.Endpoint{Host: docker.Host}
	config, err := tlsFrom(filepath.Join(dir, "contexts", "tls", id, "docker"), docker.SkipTLSVerify)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return at, err
	}
	at.TLS = config
	return at, nil
}

func readJSON(path string, dst any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, dst)
}

// tlsFrom reads ca.pem, cert.pem and key.pem of a folder.
func tlsFrom(dir string, skipVerify bool) (*tls.Config, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.pem holds no certificate")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		Certificates:       []tls.Certificate{pair},
		InsecureSkipVerify: skipVerify, //nolint:gosec // the user's own docker setting
	}, nil
}
