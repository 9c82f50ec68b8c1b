package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
)

func newStore(t *testing.T) *Store {
	t.Helper()
	return Open(core.Home(filepath.Join(t.TempDir(), "home")))
}

func write(t *testing.T, s *Store, content string) {
	t.Helper()
	if err := s.home.Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.home.State(), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s *Store) string {
	t.Helper()
	data, err := os.ReadFile(s.home.State())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func reserve(s *Store, folder string) (box core.Box, err error) {
	err = s.Update(context.Background(), func(st *State) error {
		box, err = st.Reserve(Draft{Folder: folder, ProjectRoot: "/p", Provider: "docker"}, nobody)
		return err
	})
	return box, err
}

func nobody(core.BoxName) (string, error) { return "", nil }

func TestNoFileMeansNoBoxes(t *testing.T) {
	st, err := newStore(t).Read()
	if err != nil || len(st.Boxes) != 0 {
		t.Fatalf("got %v, %v", st, err)
	}
}

func TestUpdateWritesForTheUserAlone(t *testing.T) {
	s := newStore(t)
	box, err := reserve(s, "app")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{s.home.State(): 0o600, string(s.home): 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
	st, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]core.Box{box}, st.Boxes); diff != "" {
		t.Error(diff)
	}
	left, _ := filepath.Glob(s.home.State() + ".*")
	if len(left) != 1 || !strings.HasSuffix(left[0], ".lock") {
		t.Errorf("files beside the state: %v", left)
	}
}

func TestUnknownFieldsSurviveARewrite(t *testing.T) {
	const before = `{
  "version": 1,
  "future": {"big": 12345678901234567890, "list": [1, 2]},
  "boxes": [
    {"id": "b00000001", "name": "one", "provider": "docker", "createdAt": "2026-01-02T03:04:05.000Z",
     "projectRoot": "/p", "projectIndex": 1, "lastAgent": "claude",
     "docker": {"container": "agentbox-one", "image": "i", "imageId": "x", "network": "n", "profile": "sealed", "vnc": 5900}},
    {"id": "b00000002", "name": "two", "provider": "docker", "createdAt": "2026-01-02T03:04:05Z",
     "projectRoot": "/p", "projectIndex": 2, "secretTool": [true, null]}
  ]
}`
	s := newStore(t)
	write(t, s, before)
	err := s.Update(context.Background(), func(st *State) error {
		box, _ := st.Box("b00000001")
		box.Docker.Image = "newer"
		st.Put(box)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(before, `"image": "i"`, `"image": "newer"`, 1)
	if diff := cmp.Diff(parse(t, want), parse(t, read(t, s))); diff != "" {
		t.Error(diff)
	}
}

func parse(t *testing.T, text string) any {
	t.Helper()
	v, err := generic([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAFieldThatIsClearedLeavesTheFile(t *testing.T) {
	s := newStore(t)
	write(t, s, `{"version":1,"boxes":[{"id":"b00000001","name":"one","creating":true,"keep":1}]}`)
	err := s.Update(context.Background(), func(st *State) error {
		st.Boxes[0].Creating = false
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, s)
	if strings.Contains(got, "creating") || !strings.Contains(got, `"keep": 1`) {
		t.Error(got)
	}
}

func TestAFileThatIsNotUnderstoodIsRefusedAndKept(t *testing.T) {
	one := `{"id":"b00000001","name":"one"}`
	cases := map[string]struct {
		content string
		want    error
	}{
		"a newer version":     {`{"version":2,"boxes":"elsewhere in v2"}`, ErrNewer},
		"a newer list":        {`{"version":7,"boxes":[]}`, ErrNewer},
		"half a file":         {`{"version":1,"boxes":[`, ErrCorrupt},
		"an empty file":       {``, ErrCorrupt},
		"no version":          {`{"boxes":[]}`, ErrCorrupt},
		"data after the end":  {`{"version":1,"boxes":[]} x`, ErrCorrupt},
		"a list":              {`[]`, ErrCorrupt},
		"null":                {`null`, ErrCorrupt},
		"an id twice":         {`{"version":1,"boxes":[` + one + `,` + one + `]}`, ErrCorrupt},
		"a record without id": {`{"version":1,"boxes":[{"name":"one"}]}`, ErrCorrupt},
		"a path as id":        {`{"version":1,"boxes":[{"id":"../../x","name":"one"}]}`, ErrCorrupt},
		"a bad name":          {`{"version":1,"boxes":[{"id":"b00000001","name":"-rf"}]}`, ErrCorrupt},
		"a null record":       {`{"version":1,"boxes":[null]}`, ErrCorrupt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			write(t, s, tc.content)
			_, err := s.Read()
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("read: %v, want %v", err, tc.want)
			}
			if _, err := reserve(s, "app"); err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("update: %v, want %v", err, tc.want)
			}
			if got := read(t, s); got != tc.content {
				t.Errorf("the file was touched: %q", got)
			}
		})
	}
}

func TestAFailedChangeWritesNothing(t *testing.T) {
	s := newStore(t)
	write(t, s, `{"version":1,"boxes":[]}`)
	sorry := errors.New("sorry")
	err := s.Update(context.Background(), func(st *State) error {
		st.Boxes = append(st.Boxes, core.Box{ID: "b00000001", Name: "one"})
		return sorry
	})
	if !errors.Is(err, sorry) || read(t, s) != `{"version":1,"boxes":[]}` {
		t.Errorf("got %v, %s", err, read(t, s))
	}
}

func TestAWaitForTheLockHonoursItsContext(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := s.Update(context.Background(), func(*State) error {
		cancel()
		return s.Update(ctx, func(*State) error { return errors.New("ran beside the holder") })
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// asProcess makes this test binary play one writer, so that tests can use
// whole processes.
const asProcess = "STATE_TEST_WRITER"

func TestMain(m *testing.M) {
	job, home, _ := strings.Cut(os.Getenv(asProcess), "=")
	s := Open(core.Home(home))
	var err error
	switch verb, arg, _ := strings.Cut(job, ":"); verb {
	case "":
		os.Exit(m.Run())
	case "add":
		_, err = reserve(s, arg)
	case "remove":
		err = s.Update(context.Background(), func(st *State) error { st.Remove(arg); return nil })
	case "hold":
		err = s.Update(context.Background(), func(*State) error {
			fmt.Println("held")
			select {}
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writer(ctx context.Context, t *testing.T, s *Store, job string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), asProcess+"="+job+"="+string(s.home))
	cmd.Stderr = os.Stderr
	return cmd
}

func TestManyProcessesLoseNoRecord(t *testing.T) {
	s := newStore(t)
	const pairs = 12
	var old []core.Box
	for range pairs {
		box, err := reserve(s, "old")
		if err != nil {
			t.Fatal(err)
		}
		old = append(old, box)
	}
	polled := poll(t, s)
	var wg sync.WaitGroup
	for i := range pairs {
		for _, job := range []string{"add:new", "remove:" + old[i].ID} {
			cmd := writer(t.Context(), t, s, job)
			wg.Go(func() {
				if err := cmd.Run(); err != nil {
					t.Errorf("%s: %v", job, err)
				}
			})
		}
	}
	wg.Wait()
	polled()
	st, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	names, indexes := map[core.BoxName]bool{}, map[int]bool{}
	for _, b := range st.Boxes {
		names[b.Name], indexes[b.ProjectIndex] = true, true
		if !strings.HasPrefix(string(b.Name), "new") {
			t.Errorf("%s is back from the dead", b.Name)
		}
	}
	if len(st.Boxes) != pairs || len(names) != pairs || len(indexes) != pairs {
		t.Errorf("%d boxes, %d names, %d indexes; want %d of each", len(st.Boxes), len(names), len(indexes), pairs)
	}
}

// poll reads the file over and over until the returned function is called.
func poll(t *testing.T, s *Store) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Read(); err != nil {
				t.Errorf("a reader met: %v", err)
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

func TestALockOfAKilledProcessIsFree(t *testing.T) {
	s := newStore(t)
	ctx, kill := context.WithTimeout(t.Context(), time.Minute)
	defer kill()
	cmd := writer(ctx, t, s, "hold")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	kill()
	cmd.Wait() //nolint:errcheck // it was killed
	if _, err := reserve(s, "app"); err != nil {
		t.Error(err)
	}
}

func FuzzStateFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"boxes":[{"id":"b00000001","name":"one","x":{"y":[1]}}],"z":1e400}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := decode(data)
		if err != nil {
			return
		}
		if _, changed, err := encode(st); err != nil || (changed && st.file["boxes"] != nil && st.file["version"] == json.Number("1")) {
			t.Fatalf("a file that nobody changed would be written again: %v", err)
		}
	})
}
