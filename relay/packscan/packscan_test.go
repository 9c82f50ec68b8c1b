package packscan_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the format's checksum
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/madarco/agentbox/relay/packscan"
)

// packer builds packs, honest ones and others.
type packer struct {
	bytes.Buffer
	format string
}

func newPack(format string, count uint32) *packer {
	p := &packer{format: format}
	p.WriteString("PACK")
	_ = binary.Write(p, binary.BigEndian, uint32(2))
	_ = binary.Write(p, binary.BigEndian, count)
	return p
}

func (p *packer) head(kind byte, size uint64) *packer {
	c := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	p.WriteByte(c)
	return p
}

func (p *packer) deflate(body []byte) *packer {
	w := zlib.NewWriter(p)
	_, _ = w.Write(body)
	_ = w.Close()
	return p
}

// zeros deflates n zero bytes without holding them.
func (p *packer) zeros(n int64) *packer {
	w := zlib.NewWriter(p)
	_, _ = io.CopyN(w, zero{}, n)
	_ = w.Close()
	return p
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func (p *packer) raw(b ...byte) *packer { p.Write(b); return p }

func (p *packer) seal() []byte {
	var h hash.Hash = sha1.New() //nolint:gosec // the format's checksum
	if p.format == "sha256" {
		h = sha256.New()
	}
	h.Write(p.Bytes())
	return h.Sum(p.Bytes())
}

func delta(from, to uint64, ops ...byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, from), to), ops...)
}

const (
	blob     = 3
	ofsDelta = 6
	refDelta = 7
)

func TestScanPasses(t *testing.T) {
	t.Parallel()
	twice := newPack("sha1", 2).head(blob, 5).deflate([]byte("hello"))
	back := byte(twice.Len() - 12)
	d := delta(5, 10, 0x90, 5, 0x90, 5)
	twice.head(ofsDelta, uint64(len(d))).raw(back).deflate(d)
	for name, c := range map[string]struct {
		pack   []byte
		format string
		want   packscan.Result
	}{
		"empty":         {newPack("sha1", 0).seal(), "sha1", packscan.Result{Bytes: 32}},
		"empty sha256":  {newPack("sha256", 0).seal(), "sha256", packscan.Result{Bytes: 44}},
		"blob":          {newPack("sha1", 1).head(blob, 5).deflate([]byte("hello")).seal(), "sha1", packscan.Result{Objects: 1, Largest: 5, Inflated: 5}},
		"empty blob":    {newPack("sha1", 1).head(blob, 0).deflate(nil).seal(), "sha1", packscan.Result{Objects: 1}},
		"offset delta":  {twice.seal(), "sha1", packscan.Result{Objects: 2, Largest: 10, Inflated: 15}},
		"thin":          {newPack("sha256", 1).head(refDelta, 2).raw(make([]byte, 32)...).deflate(delta(0, 0)).seal(), "sha256", packscan.Result{Objects: 1, Largest: 2, Inflated: 2}},
		"million zeros": {newPack("sha1", 1).head(blob, 1_000_000).zeros(1_000_000).seal(), "sha1", packscan.Result{Objects: 1, Largest: 1_000_000, Inflated: 1_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var passed bytes.Buffer
			got, err := packscan.Copy(&passed, iotest.HalfReader(bytes.NewReader(c.pack)), c.format, packscan.Defaults)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(passed.Bytes(), c.pack) {
				t.Errorf("passed on %x, want %x", passed.Bytes(), c.pack)
			}
			c.want.Bytes = int64(len(c.pack))
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestScanBounds holds the packs that git itself would unfold at the host's cost.
func TestScanBounds(t *testing.T) {
	t.Parallel()
	deep := newPack("sha1", 6).head(blob, 1).deflate([]byte("x"))
	last := 12
	for range 5 {
		here := deep.Len()
		d := delta(1, 1, 0x90, 1)
		deep.head(ofsDelta, uint64(len(d))).raw(byte(here - last)).deflate(d)
		last = here
	}
	sum := newPack("sha1", 3)
	for range 3 {
		sum.head(blob, 900).zeros(900)
	}
	small := packscan.Limits{Objects: 10, ObjectBytes: 1000, InflatedBytes: 2000, PackBytes: 4000, Ratio: 10, DeltaDepth: 4}
	for name, c := range map[string]struct {
		pack   []byte
		limits packscan.Limits
		want   packscan.Bound
	}{
		"count of 2^31-1":      {newPack("sha1", 1<<31-1).seal(), packscan.Defaults, packscan.BoundObjects},
		"blob of 1.5 GB":       {newPack("sha1", 1).head(blob, 1536<<20).zeros(1 << 20).seal(), packscan.Defaults, packscan.BoundObject},
		"delta bomb of 1.6 GB": {newPack("sha1", 1).head(refDelta, 6).raw(make([]byte, 20)...).deflate(delta(0, 1600<<20)).seal(), packscan.Defaults, packscan.BoundObject},
		"zip bomb":             {newPack("sha1", 1).head(blob, 80<<20).zeros(80 << 20).seal(), packscan.Defaults, packscan.BoundRatio},
		"sum of objects":       {sum.seal(), small, packscan.BoundInflated},
		"pack bytes":           {append(newPack("sha1", 0).seal(), make([]byte, 5000)...), small, packscan.BoundPack},
		"delta chain":          {deep.seal(), small, packscan.BoundDepth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := packscan.Scan(bytes.NewReader(c.pack), "sha1", c.limits)
			var bound *packscan.BoundError
			if !errors.As(err, &bound) || bound.Bound != c.want {
				t.Fatalf("got %v, want bound %q", err, c.want)
			}
			if !strings.Contains(err.Error(), string(c.want)) {
				t.Errorf("%q does not name the bound", err)
			}
		})
	}
}

func TestScanMalformed(t *testing.T) {
	t.Parallel()
	good := newPack("sha1", 1).head(blob, 5).deflate([]byte("hello")).seal()
	flipped := bytes.Clone(good)
	flipped[16] ^= 1
	unsummed := bytes.Clone(good)
	unsummed[len(unsummed)-1] ^= 1
	version := bytes.Clone(good)
	version[7] = 9
	for name, pack := range map[string][]byte{
		"nothing":                  nil,
		"no signature":             []byte("PUCK00000000"),
		"version":                  version,
		"truncated":                good[:20],
		"without trailer":          good[:len(good)-20],
		"bit flip":                 flipped,
		"wrong trailer":            unsummed,
		"data behind":              append(bytes.Clone(good), 'x'),
		"count too small":          newPack("sha1", 0).head(blob, 5).deflate([]byte("hello")).seal(),
		"count too large":          newPack("sha1", 2).head(blob, 5).deflate([]byte("hello")).seal(),
		"longer than declared":     newPack("sha1", 1).head(blob, 4).deflate([]byte("hello")).seal(),
		"shorter than declared":    newPack("sha1", 1).head(blob, 6).deflate([]byte("hello")).seal(),
		"type 0":                   newPack("sha1", 1).head(0, 0).deflate(nil).seal(),
		"type 5":                   newPack("sha1", 1).head(5, 0).deflate(nil).seal(),
		"endless size":             newPack("sha1", 1).raw(bytes.Repeat([]byte{0xff}, 30)...).seal(),
		"delta before the pack":    newPack("sha1", 1).head(ofsDelta, 2).raw(100).deflate(delta(0, 0)).seal(),
		"delta on itself":          newPack("sha1", 1).head(ofsDelta, 2).raw(0).deflate(delta(0, 0)).seal(),
		"delta into an object":     newPack("sha1", 2).head(blob, 5).deflate([]byte("hello")).head(ofsDelta, 2).raw(3).deflate(delta(5, 0)).seal(),
		"endless delta offset":     newPack("sha1", 1).head(ofsDelta, 2).raw(bytes.Repeat([]byte{0xff}, 30)...).seal(),
		"delta of another base":    newPack("sha1", 2).head(blob, 0).deflate(nil).head(ofsDelta, 2).raw(9).deflate(delta(7, 0)).seal(),
		"delta without its header": newPack("sha1", 1).head(refDelta, 1).raw(make([]byte, 20)...).deflate([]byte{0xff}).seal(),
		"delta size of 2^70":       newPack("sha1", 1).head(refDelta, 12).raw(make([]byte, 20)...).deflate(bytes.Repeat([]byte{0xff}, 12)).seal(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := packscan.Scan(bytes.NewReader(pack), "sha1", packscan.Defaults); !errors.Is(err, packscan.ErrMalformed) {
				t.Fatalf("got %v, want malformed", err)
			}
		})
	}
}

func TestScanKeepsTheReadersError(t *testing.T) {
	t.Parallel()
	good := newPack("sha1", 1).head(blob, 1<<20).zeros(1 << 20).seal()
	gone := errors.New("gone")
	for _, at := range []int{0, 5, 14, 600, len(good) - 3} {
		r := io.MultiReader(bytes.NewReader(good[:at]), iotest.ErrReader(gone))
		if _, err := packscan.Scan(r, "sha1", packscan.Defaults); !errors.Is(err, gone) {
			t.Errorf("cut at %d: got %v", at, err)
		}
	}
	if _, err := packscan.Scan(bytes.NewReader(good), "md5", packscan.Defaults); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("unknown object format: %v", err)
	}
}

// TestCopyPassesNothingOnUnseen: what follows is cut where it is looked at, even
// when it came in one piece with what was fine.
func TestCopyPassesNothingOnUnseen(t *testing.T) {
	t.Parallel()
	bomb := newPack("sha1", 2).head(blob, 5).deflate([]byte("hello"))
	fine := bomb.Len()
	noise := make([]byte, 200<<10) // more than any buffer, and compresses to no less
	rand.NewChaCha8([32]byte{}).Read(noise)
	d := delta(0, 1600<<20, noise...)
	bomb.head(refDelta, uint64(len(d))).raw(make([]byte, 20)...).deflate(d)
	badSum := newPack("sha1", 1).head(blob, 5).deflate([]byte("hello")).seal()
	badSum[len(badSum)-1] ^= 1
	for name, c := range map[string]struct {
		pack []byte
		most int
	}{
		"delta that makes too much": {bomb.seal(), fine + 64},
		"wrong checksum":            {badSum, len(badSum) - 20},
		"bytes behind it":           {append(newPack("sha1", 0).seal(), 'x'), 12},
	} {
		var passed bytes.Buffer
		if _, err := packscan.Copy(&passed, bytes.NewReader(c.pack), "sha1", packscan.Defaults); err == nil {
			t.Errorf("%s: it passed", name)
		}
		if passed.Len() > c.most {
			t.Errorf("%s: %d bytes were passed on, want at most %d", name, passed.Len(), c.most)
		}
	}
}

func TestCopyKeepsTheWritersError(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	gone := errors.New("gone")
	read.CloseWithError(gone)
	if _, err := packscan.Copy(write, bytes.NewReader(newPack("sha1", 0).seal()), "sha1", packscan.Defaults); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	r := packscan.Result{Objects: 3, Largest: 10, Inflated: 20, Bytes: 15}
	at := packscan.Limits{Objects: 3, ObjectBytes: 10, InflatedBytes: 20, PackBytes: 15}
	if over := r.Over(at); over != nil {
		t.Errorf("at the limits: %v", over)
	}
	for bound, l := range map[packscan.Bound]packscan.Limits{
		packscan.BoundObjects:  {Objects: 2, ObjectBytes: 10, InflatedBytes: 20, PackBytes: 15},
		packscan.BoundObject:   {Objects: 3, ObjectBytes: 9, InflatedBytes: 20, PackBytes: 15},
		packscan.BoundInflated: {Objects: 3, ObjectBytes: 10, InflatedBytes: 19, PackBytes: 15},
		packscan.BoundPack:     {Objects: 3, ObjectBytes: 10, InflatedBytes: 20, PackBytes: 14},
	} {
		if over := r.Over(l); over == nil || over.Bound != bound {
			t.Errorf("over %s: %v", bound, over)
		}
	}
}

// TestScanOfGit reads what git packs, thin and with deltas, in both formats.
func TestScanOfGit(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		pack := gitPack(t, format)
		got, err := packscan.Scan(bytes.NewReader(pack), format, packscan.Defaults)
		if err != nil || got.Objects < 9 || got.Bytes != int64(len(pack)) {
			t.Errorf("%s: %+v, %v", format, got, err)
		}
	}
}

func gitPack(t testing.TB, format string) []byte {
	t.Helper()
	dir := t.TempDir()
	run := func(stdin string, args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run("", "init", "-q", "--object-format="+format)
	text := ""
	for i := range 3 {
		text += strings.Repeat("line of text\n", 50*(i+1))
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run("", "add", "file")
		run("", "commit", "-qm", "change")
	}
	return run("HEAD\n", "pack-objects", "--revs", "--stdout", "-q")
}

func FuzzScan(f *testing.F) {
	f.Add(newPack("sha1", 0).seal(), false)
	f.Add(newPack("sha1", 1).head(blob, 5).deflate([]byte("hello")).seal(), false)
	f.Add(newPack("sha256", 1).head(refDelta, 2).raw(make([]byte, 32)...).deflate(delta(0, 0)).seal(), true)
	f.Add(newPack("sha1", 1).head(refDelta, 6).raw(make([]byte, 20)...).deflate(delta(0, 1600<<20)).seal(), false)
	limits := packscan.Limits{Objects: 100, ObjectBytes: 1 << 16, InflatedBytes: 1 << 18, PackBytes: 1 << 16, Ratio: 100, DeltaDepth: 10}
	f.Fuzz(func(t *testing.T, pack []byte, wide bool) {
		format := "sha1"
		if wide {
			format = "sha256"
		}
		var passed bytes.Buffer
		got, err := packscan.Copy(&passed, bytes.NewReader(pack), format, limits)
		var bound *packscan.BoundError
		switch {
		case err == nil && (got.Bytes != int64(len(pack)) || got.Inflated > limits.InflatedBytes):
			t.Fatalf("passed with %+v", got)
		case err != nil && !errors.Is(err, packscan.ErrMalformed) && !errors.As(err, &bound):
			t.Fatalf("untyped error %v", err)
		case !bytes.HasPrefix(pack, passed.Bytes()), err == nil && passed.Len() < len(pack):
			t.Fatalf("passed on %d bytes of %d, %v", passed.Len(), len(pack), err)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	pack := gitPack(b, "sha1")
	b.SetBytes(int64(len(pack)))
	for b.Loop() {
		if _, err := packscan.Scan(bytes.NewReader(pack), "sha1", packscan.Defaults); err != nil {
			b.Fatal(err)
		}
	}
}
