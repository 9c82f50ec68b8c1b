package packscan_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/madarco/agentbox/relay/packscan"
	"github.com/madarco/agentbox/relay/packscan/packtest"
)

func TestScanPasses(t *testing.T) {
	t.Parallel()
	twice := packtest.New("sha1", 2).Head(packtest.Blob, 5).Deflate([]byte("hello"))
	back := byte(twice.Len() - 12)
	d := packtest.Delta(5, 10, 0x90, 5, 0x90, 5)
	twice.Head(packtest.OfsDelta, uint64(len(d))).Raw(back).Deflate(d)
	for name, c := range map[string]struct {
		pack   []byte
		format string
		want   packscan.Result
	}{
		"empty":         {packtest.New("sha1", 0).Seal(), "sha1", packscan.Result{Bytes: 32}},
		"empty sha256":  {packtest.New("sha256", 0).Seal(), "sha256", packscan.Result{Bytes: 44}},
		"blob":          {packtest.New("sha1", 1).Head(packtest.Blob, 5).Deflate([]byte("hello")).Seal(), "sha1", packscan.Result{Objects: 1, Largest: 5, Inflated: 5}},
		"empty blob":    {packtest.New("sha1", 1).Head(packtest.Blob, 0).Deflate(nil).Seal(), "sha1", packscan.Result{Objects: 1}},
		"offset delta":  {twice.Seal(), "sha1", packscan.Result{Objects: 2, Largest: 10, Inflated: 15}},
		"thin":          {packtest.New("sha256", 1).Head(packtest.RefDelta, 2).Raw(make([]byte, 32)...).Deflate(packtest.Delta(0, 0)).Seal(), "sha256", packscan.Result{Objects: 1, Largest: 2, Inflated: 2}},
		"million zeros": {packtest.New("sha1", 1).Head(packtest.Blob, 1_000_000).Zeros(1_000_000).Seal(), "sha1", packscan.Result{Objects: 1, Largest: 1_000_000, Inflated: 1_000_000}},
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
	deep := packtest.New("sha1", 6).Head(packtest.Blob, 1).Deflate([]byte("x"))
	last := 12
	for range 5 {
		here := deep.Len()
		d := packtest.Delta(1, 1, 0x90, 1)
		deep.Head(packtest.OfsDelta, uint64(len(d))).Raw(byte(here - last)).Deflate(d)
		last = here
	}
	sum := packtest.New("sha1", 3)
	for range 3 {
		sum.Head(packtest.Blob, 900).Zeros(900)
	}
	small := packscan.Limits{Objects: 10, ObjectBytes: 1000, InflatedBytes: 2000, PackBytes: 4000, Ratio: 10, DeltaDepth: 4}
	for name, c := range map[string]struct {
		pack   []byte
		limits packscan.Limits
		want   packscan.Bound
	}{
		"count of 2^31-1":      {packtest.New("sha1", 1<<31-1).Seal(), packscan.Defaults, packscan.BoundObjects},
		"blob of 1.5 GB":       {packtest.New("sha1", 1).Head(packtest.Blob, 1536<<20).Zeros(1 << 20).Seal(), packscan.Defaults, packscan.BoundObject},
		"delta bomb of 1.6 GB": {packtest.New("sha1", 1).Head(packtest.RefDelta, 6).Raw(make([]byte, 20)...).Deflate(packtest.Delta(0, 1600<<20)).Seal(), packscan.Defaults, packscan.BoundObject},
		"zip bomb":             {packtest.New("sha1", 1).Head(packtest.Blob, 80<<20).Zeros(80 << 20).Seal(), packscan.Defaults, packscan.BoundRatio},
		"sum of objects":       {sum.Seal(), small, packscan.BoundInflated},
		"pack bytes":           {append(packtest.New("sha1", 0).Seal(), make([]byte, 5000)...), small, packscan.BoundPack},
		"delta chain":          {deep.Seal(), small, packscan.BoundDepth},
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
	good := packtest.New("sha1", 1).Head(packtest.Blob, 5).Deflate([]byte("hello")).Seal()
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
		"count too small":          packtest.New("sha1", 0).Head(packtest.Blob, 5).Deflate([]byte("hello")).Seal(),
		"count too large":          packtest.New("sha1", 2).Head(packtest.Blob, 5).Deflate([]byte("hello")).Seal(),
		"longer than declared":     packtest.New("sha1", 1).Head(packtest.Blob, 4).Deflate([]byte("hello")).Seal(),
		"shorter than declared":    packtest.New("sha1", 1).Head(packtest.Blob, 6).Deflate([]byte("hello")).Seal(),
		"type 0":                   packtest.New("sha1", 1).Head(0, 0).Deflate(nil).Seal(),
		"type 5":                   packtest.New("sha1", 1).Head(5, 0).Deflate(nil).Seal(),
		"endless size":             packtest.New("sha1", 1).Raw(bytes.Repeat([]byte{0xff}, 30)...).Seal(),
		"delta before the pack":    packtest.New("sha1", 1).Head(packtest.OfsDelta, 2).Raw(100).Deflate(packtest.Delta(0, 0)).Seal(),
		"delta on itself":          packtest.New("sha1", 1).Head(packtest.OfsDelta, 2).Raw(0).Deflate(packtest.Delta(0, 0)).Seal(),
		"delta into an object":     packtest.New("sha1", 2).Head(packtest.Blob, 5).Deflate([]byte("hello")).Head(packtest.OfsDelta, 2).Raw(3).Deflate(packtest.Delta(5, 0)).Seal(),
		"endless delta offset":     packtest.New("sha1", 1).Head(packtest.OfsDelta, 2).Raw(bytes.Repeat([]byte{0xff}, 30)...).Seal(),
		"delta of another base":    packtest.New("sha1", 2).Head(packtest.Blob, 0).Deflate(nil).Head(packtest.OfsDelta, 2).Raw(9).Deflate(packtest.Delta(7, 0)).Seal(),
		"delta without its header": packtest.New("sha1", 1).Head(packtest.RefDelta, 1).Raw(make([]byte, 20)...).Deflate([]byte{0xff}).Seal(),
		"delta size of 2^70":       packtest.New("sha1", 1).Head(packtest.RefDelta, 12).Raw(make([]byte, 20)...).Deflate(bytes.Repeat([]byte{0xff}, 12)).Seal(),
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
	good := packtest.New("sha1", 1).Head(packtest.Blob, 1<<20).Zeros(1 << 20).Seal()
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
	bomb := packtest.New("sha1", 2).Head(packtest.Blob, 5).Deflate([]byte("hello"))
	fine := bomb.Len()
	noise := make([]byte, 200<<10) // more than any buffer, and compresses to no less
	rand.NewChaCha8([32]byte{}).Read(noise)
	d := packtest.Delta(0, 1600<<20, noise...)
	bomb.Head(packtest.RefDelta, uint64(len(d))).Raw(make([]byte, 20)...).Deflate(d)
	badSum := packtest.New("sha1", 1).Head(packtest.Blob, 5).Deflate([]byte("hello")).Seal()
	badSum[len(badSum)-1] ^= 1
	for name, c := range map[string]struct {
		pack []byte
		most int
	}{
		"delta that makes too much": {bomb.Seal(), fine + 64},
		"wrong checksum":            {badSum, len(badSum) - 20},
		"bytes behind it":           {append(packtest.New("sha1", 0).Seal(), 'x'), 12},
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
	if _, err := packscan.Copy(write, bytes.NewReader(packtest.New("sha1", 0).Seal()), "sha1", packscan.Defaults); !errors.Is(err, gone) {
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
	f.Add(packtest.New("sha1", 0).Seal(), false)
	f.Add(packtest.New("sha1", 1).Head(packtest.Blob, 5).Deflate([]byte("hello")).Seal(), false)
	f.Add(packtest.New("sha256", 1).Head(packtest.RefDelta, 2).Raw(make([]byte, 32)...).Deflate(packtest.Delta(0, 0)).Seal(), true)
	f.Add(packtest.New("sha1", 1).Head(packtest.RefDelta, 6).Raw(make([]byte, 20)...).Deflate(packtest.Delta(0, 1600<<20)).Seal(), false)
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
