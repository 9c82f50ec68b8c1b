package sandboxdocker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/images"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// imageOptions are those of a provider with an image name of its own, an
// agentbox-ctl that is never run, and a log.
func imageOptions(t *testing.T, ctl string) (sandboxdocker.Options, *journal) {
	t.Helper()
	log := &journal{}
	o := options(t, endpoint(t))
	o.Ctl = func(string) ([]byte, error) { return []byte(ctl), nil }
	o.Progress = log.add
	o.Repository = "agentbox-test/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	removeImages(t, o)
	return o, log
}

// removeImages removes what a provider with these options has made, when the
// test ends.
func removeImages(t *testing.T, o sandboxdocker.Options) {
	t.Cleanup(func() {
		for _, tag := range []string{"lean", "lean-content"} {
			err := o.Engine.RemoveImage(context.WithoutCancel(t.Context()), o.Repository+":"+tag)
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("clean up: %v", err)
			}
		}
	})
}

// wholeBuild stands in the log of a build that starts at the base.
const wholeBuild = "COPY rootfs/"

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// count tells how many lines contain the text.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func ensure(t *testing.T, o sandboxdocker.Options) sandboxdocker.Image {
	t.Helper()
	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	image, err := p.EnsureImage(t.Context())
	if err != nil {
		t.Fatalf("EnsureImage: %v", err)
	}
	return image
}

func TestImageIsBuiltOnceForAllWhoNeedIt(t *testing.T) {
	t.Parallel()
	o, log := imageOptions(t, t.Name())
	found := make([]sandboxdocker.Image, 4)
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() {
			p, err := sandboxdocker.New(o)
			if err == nil {
				found[i], err = p.EnsureImage(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, image := range found {
		if image.ID != found[0].ID || image.ID == "" {
			t.Errorf("images differ: %s, %s", image.ID, found[0].ID)
		}
	}
	if n := log.count(wholeBuild); n != 1 {
		t.Errorf("the image was built %d times", n)
	}
	labels := found[0].Labels
	if len(labels[images.LabelFingerprint]) != 64 || labels[images.LabelFlavour] != "lean" || labels[images.LabelVersion] != "(devel)" {
		t.Errorf("labels = %v", labels)
	}
}

func TestAnotherCtlMakesAnotherImage(t *testing.T) {
	t.Parallel()
	o, log := imageOptions(t, t.Name())
	old := ensure(t, o)
	inUse := idle(t, o.Engine, old.ID)
	o.Ctl = func(string) ([]byte, error) { return []byte(t.Name() + " two"), nil }
	next := ensure(t, o)
	if next.ID == old.ID {
		t.Error("the image stayed the same")
	}
	if n := log.count(wholeBuild); n != 1 {
		t.Errorf("what is below agentbox-ctl was built %d times", n)
	}
	p, err := sandboxdocker.New(o)
	if err == nil {
		err = p.RemoveOld(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Engine.Image(t.Context(), old.ID); err != nil {
		t.Errorf("the image of a container is gone: %v", err)
	}
	if err := o.Engine.RemoveContainer(t.Context(), inUse); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveOld(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Engine.Image(t.Context(), old.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an old image that nothing uses is still there: %v", err)
	}
	if got, err := o.Engine.Image(t.Context(), o.Repository+":lean"); err != nil || got.ID != next.ID {
		t.Errorf("the newest image: %s, %v", got.ID, err)
	}
}

// idle makes a container, which never runs, of an image.
func idle(t *testing.T, e *engine.Engine, image string) (id string) {
	t.Helper()
	id, err := e.CreateContainer(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: image}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := e.RemoveContainer(context.WithoutCancel(t.Context()), id)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("clean up: %v", err)
		}
	})
	return id
}

func TestBaseOfTheUsersChoice(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	lean, err := newProvider(t, at).EnsureImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, _ := imageOptions(t, t.Name())
	o.BaseImage = lean.Ref
	ensure(t, o)
	noBuildNetwork(t, o)
	o.BaseImage = "agentbox-test/none:none"
	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.EnsureImage(t.Context()); err == nil {
		t.Error("an image was made from a base that does not exist")
	}
}

func noBuildNetwork(t *testing.T, o sandboxdocker.Options) {
	t.Helper()
	networks, err := o.Engine.Networks(t.Context(), "agentbox.build="+o.Repository+":lean-content")
	if err != nil || len(networks) > 0 {
		t.Errorf("networks of the build are left behind: %+v, %v", networks, err)
	}
}

func TestInterruptedBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	lean, err := newProvider(t, endpoint(t)).EnsureImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, _ := imageOptions(t, t.Name())
	o.BaseImage = lean.Ref // which makes a build that has a network
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	networked := false
	o.Progress = func(line string) {
		if strings.Contains(line, wholeBuild) {
			networks, err := o.Engine.Networks(t.Context(), "agentbox.build="+o.Repository+":lean-content")
			networked = err == nil && len(networks) == 1
			cancel()
		}
	}
	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.EnsureImage(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted EnsureImage: %v", err)
	}
	if !networked {
		t.Error("the build that was interrupted had no network of its own")
	}
	noBuildNetwork(t, o)
	for _, tag := range []string{"lean", "lean-content"} {
		if _, err := o.Engine.Image(t.Context(), o.Repository+":"+tag); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("half an image is called %s: %v", tag, err)
		}
	}
	o.Progress = func(string) {}
	ensure(t, o)
}

func TestImageIsPulledByItsFingerprint(t *testing.T) {
	t.Parallel()
	o, _ := imageOptions(t, t.Name())
	built := ensure(t, o)
	shelf := &registry{}
	shelf.take(t, o.Engine.Host(), built.ID)
	server := httptest.NewServer(shelf)
	t.Cleanup(server.Close)

	o, log := imageOptions(t, t.Name())
	o.Repository += "-pulled"
	o.Registry = server.Listener.Addr().String() + "/box"
	removeImages(t, o)
	remote := o.Registry + ":lean-sha-" + built.Labels[images.LabelFingerprint][:16]

	// What the registry has is made for everybody. This host's certificates,
	// if it has any, come on top.
	shelf.relabel(t, images.LabelExtraCA, "")
	pulled := ensure(t, o)
	if log.count(wholeBuild) > 0 || shelf.served == 0 {
		t.Errorf("the image was built, not pulled: %q", log.lines)
	}
	for _, key := range []string{images.LabelFingerprint, images.LabelExtraCA} {
		if pulled.Labels[key] != built.Labels[key] {
			t.Errorf("label %s = %q, want %q", key, pulled.Labels[key], built.Labels[key])
		}
	}
	if _, err := o.Engine.Image(t.Context(), remote); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the registry's name for the image is still there: %v", err)
	}
	if again := ensure(t, o); again.ID != pulled.ID {
		t.Error("a pulled image is not recognised")
	}

	// An image with another fingerprint under this name is not ours.
	if err := o.Engine.RemoveImage(t.Context(), o.Repository+":lean"); err != nil {
		t.Fatal(err)
	}
	shelf.relabel(t, images.LabelFingerprint, "forged")
	if forged := ensure(t, o); forged.Labels[images.LabelFingerprint] == "forged" || log.count(wholeBuild) == 0 {
		t.Error("an image that only has the right name was used")
	}
}

// registry serves one image, whatever name it is asked for, as the read-only
// part of the OCI distribution API.
type registry struct {
	mu       sync.Mutex
	config   map[string]any
	layers   [][]byte
	blobs    map[string][]byte
	manifest []byte
	served   int
}

// take reads an image out of the engine.
func (r *registry) take(t *testing.T, host, id string) {
	t.Helper()
	api, err := client.New(client.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	saved, err := api.ImageSave(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	files := map[string][]byte{}
	links := map[string]string{}
	for from := tar.NewReader(saved); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink { // a layer that is there twice
			links[h.Name] = path.Join(path.Dir(h.Name), h.Linkname)
		}
		if files[h.Name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
	var list []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &list); err != nil || len(list) != 1 {
		t.Fatalf("saved image: %v, %d manifests", err, len(list))
	}
	if err := json.Unmarshal(files[list[0].Config], &r.config); err != nil {
		t.Fatal(err)
	}
	for _, name := range list[0].Layers {
		if to, linked := links[name]; linked {
			name = to
		}
		r.layers = append(r.layers, files[name])
	}
}

// relabel changes a label of the image and puts the image on the shelf.
func (r *registry) relabel(t *testing.T, key, value string) {
	t.Helper()
	r.config["config"].(map[string]any)["Labels"].(map[string]any)[key] = value
	config, err := json.Marshal(r.config)
	if err != nil {
		t.Fatal(err)
	}
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	blobs := map[string][]byte{}
	put := func(kind string, data []byte) descriptor {
		sum := sha256.Sum256(data)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		blobs[digest] = data
		return descriptor{kind, digest, len(data)}
	}
	var layers []descriptor
	for _, layer := range r.layers {
		kind := "application/vnd.docker.image.rootfs.diff.tar"
		if bytes.HasPrefix(layer, []byte{0x1f, 0x8b}) {
			kind += ".gzip"
		}
		layers = append(layers, put(kind, layer))
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": put("application/vnd.docker.container.image.v1+json", config), "layers": layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	put(manifestType, manifest)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs, r.manifest = blobs, manifest
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served++
	name := path.Base(req.URL.Path)
	body, kind := r.blobs[name], "application/octet-stream"
	switch {
	case req.URL.Path == "/v2/":
		body = []byte("{}")
	case path.Base(path.Dir(req.URL.Path)) == "manifests":
		kind = manifestType
		if !strings.HasPrefix(name, "sha256:") {
			body = r.manifest
		}
		w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(body)))
	}
	if body == nil {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.Write(body)
}
