package sqlite_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/headfile"
	"github.com/madarco/agentbox/relay/store/sqlite"
)

// powerEnv makes the test binary a relay's store in the home that it names.
const powerEnv = "AGENTBOX_TEST_STORE_POWER"

func init() { // before the tests of any system begin
	if dir := os.Getenv(powerEnv); dir != "" {
		writeForPowerCut(dir)
	}
}

// writeForPowerCut prints a line for everything that was acknowledged, and
// leaves without closing the store.
func writeForPowerCut(dir string) {
	ctx := context.Background()
	s := must(sqlite.Open(ctx, dbIn(dir), sqlite.Options{Head: headIn(dir)}))
	for range 2 {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 30 {
					digest := fmt.Sprintf("%d-%d-%d", w, i, time.Now().UnixNano())
					a, _, err := s.OpenApproval(ctx, store.Ask{BoxID: "b1", Method: "m", Digest: digest, TTL: time.Hour})
					must(a, err)
					must(fmt.Fprintf(os.Stdout, "asked %s 0\n", a.ID))
					must(s.AnswerApproval(ctx, a.ID, store.Reply{Yes: true}))
					must(fmt.Fprintf(os.Stdout, "answered %s 0\n", a.ID))
					e := must(s.AppendAudit(ctx, entryOfSize(500)))
					must(fmt.Fprintf(os.Stdout, "entry %s %d\n", e.Hash, e.Seq))
				}
			})
		}
		wg.Wait()
		if err := s.Prune(ctx); err != nil {
			panic(err)
		} // what moves pages from the log into the database
	}
	os.Exit(0)
}

func entryOfSize(n int) store.Entry {
	return store.Entry{BoxID: "b1", Action: "act", Detail: []byte(strconv.Quote(strings.Repeat("x", n)))}
}

// TestWhatWasAcknowledgedSurvivesAPowerCut records every write, truncation and
// sync that a store asks of the kernel, and the acknowledgements among them.
// Then it cuts the power at many moments: each time a disk is put together of
// what had been synced by then and an arbitrary part of what had not, and a
// store that is opened there must hold all that was acknowledged.
//
// This proves that the syncs are asked for, in the right order, on the right
// files: with synchronous=OFF or NORMAL, or a head that is not synced, it
// fails. It proves nothing of the kernel and the disk, which are believed to
// keep what fsync returned for; nor of the folder's entries, of which the one
// new file (the log) is taken to be there once it was synced, as on ext4 and XFS.
func TestWhatWasAcknowledgedSurvivesAPowerCut(t *testing.T) {
	const cuts = 60
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	s := withHead(t, dir, nil)
	register(t, s, "b1")
	closed(t, s)
	disk := disk{}
	for _, path := range tracked(dir) {
		if data, err := os.ReadFile(path); err == nil {
			disk[path] = &medium{held: data, there: true}
		}
	}
	calls := traced(t, dir)
	at := map[int]bool{len(calls) - 1: true}
	for len(at) < cuts {
		at[random.IntN(len(calls))] = true
	}
	var told []acknowledged
	for i, c := range calls {
		if c.ack != nil {
			told = append(told, *c.ack)
		} else {
			disk.do(t, c)
		}
		if at[i] {
			cut := t.TempDir()
			disk.write(t, dir, cut, random)
			checkAfterCut(t, cut, told)
		}
		if t.Failed() {
			t.Fatalf("the power was cut after call %d of %d, with %d acknowledgements", i, len(calls), len(told))
		}
	}
	if want := 2 * 4 * 30 * 3; len(told) != want {
		t.Errorf("%d acknowledgements were seen; want %d", len(told), want)
	}
}

func checkAfterCut(t *testing.T, dir string, told []acknowledged) {
	t.Helper()
	s, err := tryWithHead(dir, nil)
	if err != nil {
		t.Errorf("the store does not open: %v", err)
		return
	}
	defer closed(t, s)
	approvals := map[string]wire.ApprovalState{}
	for _, a := range must(s.Approvals(t.Context(), "")) {
		approvals[a.ID] = a.State
	}
	entries := map[int64]string{}
	for _, e := range must(s.Audit(t.Context(), 0, 10_000)) {
		entries[e.Seq] = e.Hash
	}
	for _, a := range told {
		state := approvals[a.name]
		switch {
		case a.what == "asked" && state != wire.Pending && state != wire.Approved, a.what == "answered" && state != wire.Approved:
			t.Errorf("%s was %s, and is %q", a.name, a.what, state)
		case a.what == "entry" && entries[a.seq] != a.name:
			t.Errorf("entry %d is lost", a.seq)
		}
	}
	if _, err := headfile.Verify(t.Context(), s, headIn(dir)); err != nil {
		t.Error(err)
	}
}

// call is what a store asked of the kernel, or told its caller.
type call struct {
	path string
	sync bool
	op
	ack *acknowledged
}

// op is a write, or a truncation where data is nil.
type op struct {
	at   int64
	data []byte
}

func (o op) on(text []byte) []byte {
	if o.data == nil {
		return append(text, make([]byte, max(0, o.at-int64(len(text))))...)[:o.at]
	}
	if grow := o.at + int64(len(o.data)) - int64(len(text)); grow > 0 {
		text = append(text, make([]byte, grow)...)
	}
	copy(text[o.at:], o.data)
	return text
}

// medium is a file on a disk: what it holds for sure, and what may get there.
type medium struct {
	there   bool
	held    []byte
	pending []op
}

type disk map[string]*medium

func (d disk) do(t *testing.T, c call) {
	t.Helper()
	m := d[c.path]
	if m == nil {
		m = &medium{}
		d[c.path] = m
	}
	if !c.sync {
		m.pending = append(m.pending, c.op)
		return
	}
	m.there = true
	for _, o := range m.pending {
		m.held = o.on(m.held)
	}
	m.pending = nil
}

// write makes the files of dir in another folder as they may be found after the
// power went.
func (d disk) write(t *testing.T, dir, cut string, random *rand.Rand) {
	t.Helper()
	done(t, os.MkdirAll(filepath.Dir(dbIn(cut)), 0o700))
	for path, m := range d {
		text, there := append([]byte{}, m.held...), m.there
		for _, o := range m.pending {
			if random.IntN(2) == 0 {
				text, there = o.on(text), true
			}
		}
		if there {
			done(t, os.WriteFile(cut+strings.TrimPrefix(path, dir), text, 0o600))
		}
	}
}

// tracked are the files that must survive. The index of the log is made anew,
// and events are promised to survive the process alone.
func tracked(dir string) []string { return []string{dbIn(dir), dbIn(dir) + "-wal", headIn(dir)} }

// traced runs a store under strace and returns its calls in order.
func traced(t *testing.T, dir string) []call {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-y", "-xx", "-s", "1000000", "-o", log,
		"-e", "trace=write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat",
		must(os.Executable()))
	cmd.Env = append(os.Environ(), powerEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("trace a store (this takes strace): %v\n%.2000s", err, out)
	}
	f := must(os.Open(log))
	defer f.Close() //nolint:errcheck // only read
	var calls []call
	begun := map[string]string{} // the first half of a call, by thread
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		thread, text, _ := strings.Cut(lines.Text(), " ")
		text = strings.TrimSpace(text)
		if first, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
			begun[thread] = first
			if !syncs.MatchString(first) {
				calls = append(calls, read(t, dir, first)...) // it may get to the disk from now on
			}
			continue
		}
		if resumed.MatchString(text) {
			if text = begun[thread]; !syncs.MatchString(text) {
				continue
			}
		}
		calls = append(calls, read(t, dir, text)...)
	}
	done(t, lines.Err())
	return calls
}

var (
	syncs   = regexp.MustCompile(`^f(data)?sync\(`)
	resumed = regexp.MustCompile(`^<\.\.\. \w+ resumed>`)
	// called finds the name, the descriptor, its path, and the rest.
	called = regexp.MustCompile(`^(\w+)\((\d+)<([^>]*)>(?:, (?s:(.*)))?`)
)

// read reads a call; one that concerns nothing that we watch is none.
func read(t *testing.T, dir, text string) []call {
	t.Helper()
	m := called.FindStringSubmatch(text)
	if m == nil {
		for _, path := range tracked(dir) {
			if strings.Contains(text, hexed(path)) {
				t.Fatalf("a call that the model lacks: %.300s", text)
			}
		}
		return nil
	}
	name, path, rest := m[1], plain(t, m[3]), m[4]
	switch {
	case m[2] == "1" && name == "write":
		var a acknowledged
		if _, err := fmt.Sscan(string(quoted(t, rest)), &a.what, &a.name, &a.seq); err != nil {
			t.Fatalf("%.300s: %v", text, err)
		}
		return []call{{ack: &a}}
	case path != dbIn(dir) && path != dbIn(dir)+"-wal" && path != headIn(dir):
		return nil
	}
	switch name {
	case "pwrite64":
		numbers := strings.FieldsFunc(rest[strings.LastIndex(rest, `"`)+1:], func(r rune) bool { return r < '0' || r > '9' })
		return []call{{path: path, op: op{at: must(strconv.ParseInt(numbers[1], 10, 64)), data: quoted(t, rest)}}}
	case "ftruncate":
		size, _, _ := strings.Cut(rest, ")")
		return []call{{path: path, op: op{at: must(strconv.ParseInt(size, 10, 64))}}}
	case "fsync", "fdatasync":
		return []call{{path: path, sync: true}}
	}
	t.Fatalf("a call that the model lacks: %.300s", text)
	return nil
}

// quoted is the text between the quotes of an argument, which strace -xx
// writes as \x..\x...
func quoted(t *testing.T, arg string) []byte {
	t.Helper()
	from, to := strings.Index(arg, `"`), strings.LastIndex(arg, `"`)
	if from < 0 || to <= from || strings.HasPrefix(arg[to:], `"...`) {
		t.Fatalf("no whole text in %.300s", arg)
	}
	return must(hex.DecodeString(strings.ReplaceAll(arg[from+1:to], `\x`, "")))
}

// plain is a path as strace -xx writes it beside a descriptor.
func plain(t *testing.T, path string) string {
	t.Helper()
	if !strings.HasPrefix(path, `\x`) {
		return path
	}
	return string(must(hex.DecodeString(strings.ReplaceAll(path, `\x`, ""))))
}

func hexed(path string) string {
	var out strings.Builder
	for _, b := range []byte(path) {
		fmt.Fprintf(&out, `\x%02x`, b)
	}
	return out.String()
}
