// Package lfs is the part of git-lfs that a box needs: the filter between a
// file's content and the pointer that git keeps in its place. The contents lie
// in the box's own repository; no server is asked.
//
// Invariants:
//   - A pointer goes through both ways as it is, so that what is not here is
//     never committed as if it were the content.
//   - Content is stored whole under the hash that its pointer names, or not.
package lfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A pointer has less than this many bytes (the git-lfs specification, "The
// Pointer").
const pointerSize = 1024

const version = "version https://git-lfs.github.com/spec/v1"

// Clean writes the pointer for the content that it reads, which it keeps in
// the store.
func Clean(store string, in io.Reader, out io.Writer) error {
	start, rest, err := peek(in)
	if err != nil {
		return fmt.Errorf("read the content: %w", err)
	}
	if _, isPointer := parse(start); isPointer || len(start) == 0 {
		_, err := out.Write(start)
		return err
	}
	id, size, err := keep(store, rest)
	if err != nil {
		return fmt.Errorf("keep the content: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\noid sha256:%s\nsize %d\n", version, id, size)
	return err
}

// Smudge writes the content of the pointer that it reads, or the pointer where
// the store lacks it.
func Smudge(store string, in io.Reader, out io.Writer) error {
	start, rest, err := peek(in)
	if err != nil {
		return fmt.Errorf("read the pointer: %w", err)
	}
	if id, ok := parse(start); ok {
		f, err := os.Open(object(store, id))
		if err == nil {
			defer f.Close() //nolint:errcheck // only read
			rest = f
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the content: %w", err)
		}
	}
	_, err = io.Copy(out, rest)
	return err
}

// peek reads what may be a pointer, and returns the whole too.
func peek(in io.Reader) (start []byte, whole io.Reader, err error) {
	start, err = io.ReadAll(io.LimitReader(in, pointerSize))
	return start, io.MultiReader(bytes.NewReader(start), in), err
}

// parse reads the hash that a pointer names.
func parse(text []byte) (id string, ok bool) {
	if len(text) >= pointerSize || !bytes.HasPrefix(text, []byte(version+"\n")) {
		return "", false
	}
	var size bool
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "oid":
			id, _ = strings.CutPrefix(value, "sha256:")
		case "size":
			_, err := strconv.ParseUint(value, 10, 63)
			size = err == nil
		}
	}
	raw, err := hex.DecodeString(id)
	return id, size && err == nil && len(raw) == sha256.Size && id == strings.ToLower(id)
}

// object is where git-lfs itself keeps a content.
func object(store, id string) string { return filepath.Join(store, "objects", id[:2], id[2:4], id) }

// keep stores a content under its hash.
func keep(store string, content io.Reader) (id string, size int64, err error) {
	temp := filepath.Join(store, "tmp")
	if err := os.MkdirAll(temp, 0o755); err != nil { //nolint:gosec // as the rest of the repository
		return "", 0, err
	}
	f, err := os.CreateTemp(temp, "clean-*")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone where it was renamed
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, hash), content)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, err
	}
	id = hex.EncodeToString(hash.Sum(nil))
	to := object(store, id)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // see above
		return "", 0, err
	}
	return id, size, os.Rename(f.Name(), to)
}
