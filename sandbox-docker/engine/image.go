package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core"
)

// Image is an image that the engine has.
type Image struct {
	ID     string
	Labels map[string]string
}

// Image looks an image up by reference or id. The error wraps ErrNotFound.
func (e *Engine) Image(ctx context.Context, ref string) (Image, error) {
	got, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		return Image{}, e.failed(ctx, "look up image "+ref, err)
	}
	image := Image{ID: got.ID}
	if got.Config != nil {
		image.Labels = got.Config.Labels
	}
	return image, nil
}

// BuildRequest describes one build with the engine's classic builder.
type BuildRequest struct {
	// Context is a tar with a file Dockerfile at its top.
	Context io.Reader
	Args    map[string]string
	Labels  map[string]string
	Tag     string
	// Network is what the build's commands are attached to: a network's name,
	// or "none".
	Network string
	// Log gets each line of output; it may be nil.
	Log func(line string)
}

// Build builds and tags an image.
func (e *Engine) Build(ctx context.Context, req BuildRequest) error {
	args := map[string]*string{}
	for name, value := range req.Args {
		args[name] = &value
	}
	got, err := e.api.ImageBuild(ctx, req.Context, client.ImageBuildOptions{
		Tags:        []string{req.Tag},
		Remove:      true,
		ForceRemove: true,
		NetworkMode: req.Network,
		BuildArgs:   args,
		Labels:      req.Labels,
	})
	if err != nil {
		return e.failed(ctx, "build image "+req.Tag, err)
	}
	defer got.Body.Close()
	return e.failed(ctx, "build image "+req.Tag, follow(got.Body, req.Log))
}

// Import makes an image out of a tar of a root file system.
func (e *Engine) Import(ctx context.Context, rootfs io.Reader, ref string) error {
	// Read errors of the stream reach this call through the request's body.
	got, err := e.api.ImageImport(ctx, client.ImageImportSource{Source: rootfs, SourceName: "-"}, ref, client.ImageImportOptions{})
	if err != nil {
		return e.failed(ctx, "import image "+ref, err)
	}
	defer got.Close()
	return e.failed(ctx, "import image "+ref, follow(got, nil))
}

// Pull fetches an image from its registry, without credentials.
func (e *Engine) Pull(ctx context.Context, ref string, log func(line string)) error {
	got, err := e.api.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return e.failed(ctx, "pull image "+ref, err)
	}
	defer got.Close()
	return e.failed(ctx, "pull image "+ref, follow(got, log))
}

// Tag gives an image one more reference.
func (e *Engine) Tag(ctx context.Context, ref, as string) error {
	_, err := e.api.ImageTag(ctx, client.ImageTagOptions{Source: ref, Target: as})
	return e.failed(ctx, fmt.Sprintf("tag image %s as %s", ref, as), err)
}

// RemoveImage removes a reference, and the image with its last one.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	_, err := e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	return e.failed(ctx, "remove image "+ref, err)
}

// UntaggedImages lists the ids of the images that have the label and no
// reference, and on which no other image stands.
func (e *Engine) UntaggedImages(ctx context.Context, label string) ([]string, error) {
	got, err := e.api.ImageList(ctx, client.ImageListOptions{
		Filters: client.Filters{}.Add("dangling", "true").Add("label", label),
	})
	if err != nil {
		return nil, e.failed(ctx, "list images", err)
	}
	ids := make([]string, 0, len(got.Items))
	for _, item := range got.Items {
		ids = append(ids, item.ID)
	}
	return ids, nil
}

// tailLines is how much of a failed build's output its error quotes.
const tailLines = 8

// follow reads the engine's progress messages to their end.
func follow(body io.Reader, log func(string)) error {
	var tail []string
	for messages := json.NewDecoder(body); ; {
		var m jsonstream.Message
		switch err := messages.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the engine's progress: %w", err)
		case m.Error != nil:
			return withTail(m.Error, tail)
		}
		for _, line := range lines(m) {
			tail = append(tail[max(0, len(tail)-tailLines+1):], line)
			if log != nil {
				log(line)
			}
		}
	}
}

func lines(m jsonstream.Message) []string {
	text := m.Stream
	if text == "" && m.Progress == nil {
		text = strings.TrimSpace(m.ID + " " + m.Status)
	}
	var all []string
	for line := range bytes.SplitSeq([]byte(text), []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !between(line) {
			all = append(all, string(line))
		}
	}
	return all
}

// between tells whether a line is the classic builder's about what it makes and
// removes in between, which says nothing to anybody.
func between(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---> ")) || bytes.HasPrefix(line, []byte("Removing intermediate container "))
}

func withTail(err error, tail []string) error {
	if len(tail) == 0 {
		return err
	}
	return fmt.Errorf("%w; its last output was %s", err, core.Untrusted(strings.Join(tail, "\n")).QuoteMax(2000))
}
