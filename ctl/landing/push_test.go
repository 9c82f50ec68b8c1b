package landing

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
)

// answering is a relay that answers as the test says.
func answering(t *testing.T, answer http.HandlerFunc) Repo {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return Repo{Key: repoKey, Path: core.BoxPath(t.TempDir()), Endpoint: server.URL + "/git/k"}
}

// gitIs puts a script in git's place.
func gitIs(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENTBOX_REAL_GIT_PATH", path)
}

func one(n int) []update { return []update{{branch: branchName, oid: oid(n)}} }

// tell answers as git's protocol wants.
func tell(w http.ResponseWriter, answer string) {
	w.Header().Set("Content-Type", resultType)
	_, _ = io.WriteString(w, answer)
}

func TestTheRequest(t *testing.T) {
	dir := t.TempDir()
	gitIs(t, `echo "$@" >`+dir+`/args; cat >`+dir+`/revisions; printf 'PACK...'`)
	var head, body string
	repo := answering(t, func(w http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, false)
		text, _ := io.ReadAll(r.Body)
		head, body = strings.ReplaceAll(string(dump), r.Host, "HOST"), string(text)
		tell(w, answered("unpack ok", "ok "+landingRef+string(branchName), "ng "+landingRef+"main held"))
	})
	repo.Base = oid(0xb)
	updates := []update{{branchName, oid(3), oid(1)}, {"main", oid(4), ""}}
	refused, err := push(t.Context(), repo, updates, []core.ObjectID{oid(1)})
	if err != nil || len(refused) != 1 || refused["main"] != "held" {
		t.Errorf("push = %q, %v", refused, err)
	}
	wantHead := "POST /git/k/git-receive-pack HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n" +
		"Accept: application/x-git-receive-pack-result\r\nConnection: close\r\nContent-Type: application/x-git-receive-pack-request\r\nUser-Agent: agentbox-ctl\r\n\r\n"
	if head != wantHead {
		t.Errorf("head:\n%s\nwant:\n%s", head, wantHead)
	}
	wantBody := "00b80000000000000000000000000000000000000001 0000000000000000000000000000000000000003 refs/agentbox/landing/agentbox/b" +
		"\x00report-status side-band-64k agent=agentbox-ctl object-format=sha1" +
		"00700000000000000000000000000000000000000000 0000000000000000000000000000000000000004 refs/agentbox/landing/main" +
		"0000PACK..."
	if body != wantBody {
		t.Errorf("body:\n%q\nwant:\n%q", body, wantBody)
	}
	for name, want := range map[string]string{
		"args":      "-C " + string(repo.Path) + " -c core.fsmonitor=false -c core.bigFileThreshold=16m -c pack.compression=1 pack-objects --revs --thin --stdout -q --delta-base-offset\n",
		"revisions": strings.Join([]string{string(oid(3)), string(oid(4)), "^" + string(oid(1)), "^" + string(oid(0xb)), ""}, "\n"),
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestHostileAnswersAreFailuresOnTheWay(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	fine := answered("unpack ok", "ok "+landingRef+string(branchName))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"garbage":        {func(w http.ResponseWriter, _ *http.Request) { tell(w, "\x00\xff\xfe garbage") }, "no report"},
		"nothing":        {func(w http.ResponseWriter, _ *http.Request) { tell(w, "") }, "no report"},
		"a web page":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>"+fine) }, `"text/html; charset=utf-8"`},
		"an odd success": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted); tell(w, fine) }, "answers 202"},
		"a redirect":     {http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, "answers 307"},
		"a moved relay":  {http.RedirectHandler(elsewhere.URL, http.StatusMovedPermanently).ServeHTTP, "answers 301"},
		"no token":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "answers 401: no reason given"},
		"no repository":  {func(w http.ResponseWriter, _ *http.Request) { jsonError(w, http.StatusNotFound) }, "answers 404: no such box; make one"},
		"a long reason":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); spam(w, "why ") }, "answers 500: why why"},
		"a long header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			tell(w, fine)
		}, "header"},
		"progress, no end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", resultType)
			spam(w, banded(2, strings.Repeat("x", 1000)))
		}, "too many bytes"},
		"report, no end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", resultType)
			spam(w, banded(1, lines("unpack ok")))
		}, "too long"},
		"cut before the answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"cut behind the answer": {func(w http.ResponseWriter, _ *http.Request) {
			tell(w, fine)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			gitIs(t, `cat >/dev/null; printf PACK`)
			repo := answering(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				c.answer(w, r)
			})
			refused, err := push(t.Context(), repo, one(1), []core.ObjectID{oid(9)})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
				t.Errorf("push = %q, %v; want %q", refused, err, c.want)
			}
		})
	}
}

func jsonError(w http.ResponseWriter, code int) {
	w.WriteHeader(code)
	_, _ = io.WriteString(w, `{"error":"no such box","hint":"make one"}`)
}

// spam writes until nobody reads any more.
func spam(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

func TestAnAnswerBeforeThePackEndsThePack(t *testing.T) {
	gitIs(t, `exec cat /dev/zero`)
	repo := answering(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	if _, err := push(t.Context(), repo, one(1), nil); err == nil {
		t.Error("it was taken")
	}
}

func TestAPackThatBreaksOffIsNeverWhole(t *testing.T) {
	gitIs(t, `printf PACK; echo 'fatal: the disk is gone' >&2; exit 128`)
	whole := make(chan bool, 1)
	repo := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		whole <- err == nil
	})
	_, err := push(t.Context(), repo, one(1), nil)
	if err == nil || !strings.HasSuffix(err.Error(), "the disk is gone") {
		t.Errorf("push = %v", err)
	}
	select {
	case ended := <-whole:
		if ended {
			t.Error("the relay saw a whole request")
		}
	default: // it was given up before the relay got to it
	}
}

func TestTheEndOfAPushEndsItsGit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	gitIs(t, `echo $$ >`+file+`; exec cat /dev/zero`)
	ctx, cancel := context.WithCancel(t.Context())
	repo := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
		cancel()
		_, _ = io.Copy(io.Discard, r.Body)
	})
	if _, err := push(ctx, repo, one(1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("push = %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("git is still there: %v", err)
	}
}

func TestMemoryStaysFlatWhateverThePacksSize(t *testing.T) {
	gitIs(t, `cat >/dev/null; head -c 134217728 /dev/zero`)
	var got int64
	repo := answering(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.Copy(io.Discard, r.Body)
		tell(w, answered("unpack ok", "ok "+landingRef+string(branchName)))
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := push(t.Context(), repo, one(1), nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; got < 128<<20 || used > 8<<20 {
		t.Errorf("%d bytes allocated for %d sent", used, got)
	}
}

// objects is how many objects a pack says it holds (gitformat-pack(5)).
func objects(pack string) int {
	if len(pack) < 12 || pack[:4] != "PACK" {
		return -1
	}
	return int(binary.BigEndian.Uint32([]byte(pack[8:12])))
}

func TestAGateThatLacksWhatItTookGetsAllBeyondTheBase(t *testing.T) {
	b := newBench(t)
	base := b.commit(string(branchName))
	landed := b.commit(string(branchName))
	tip := b.commit(string(branchName))
	var packs []int
	var answer string
	repo := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, pack, _ := strings.Cut(string(body), "0000PACK")
		if packs = append(packs, objects("PACK"+pack)); len(packs) == 1 {
			tell(w, answered("unpack base lost", "ng "+landingRef+string(branchName)+" base lost"))
		} else {
			tell(w, answer)
		}
	})
	repo.Path, repo.Base = core.BoxPath(b.work), base
	updates := []update{{branchName, tip, landed}}

	answer = answered("unpack ok", "ok "+landingRef+string(branchName))
	refused, err := push(t.Context(), repo, updates, []core.ObjectID{landed})
	if err != nil || len(refused) != 0 || len(packs) != 2 || packs[0] != 1 || packs[1] != 2 {
		t.Errorf("push = %q, %v, by packs of %v objects", refused, err, packs)
	}
	packs, answer = nil, answered("unpack too large", "ng "+landingRef+string(branchName)+" too large")
	refused, err = push(t.Context(), repo, updates, []core.ObjectID{landed})
	if err != nil || refused[branchName] != "too large" || len(packs) != 2 {
		t.Errorf("push = %q, %v, after %d requests", refused, err, len(packs))
	}
}

func TestAnUnknownExclusionIsLeftOutAndNoOther(t *testing.T) {
	b := newBench(t)
	first := b.commit(string(branchName))
	tip := b.commit(string(branchName))
	repo := Repo{Path: core.BoxPath(b.work)}
	for name, c := range map[string]struct {
		base core.ObjectID
		held []core.ObjectID
		want int
	}{
		"all known":          {first, []core.ObjectID{first}, 1},
		"base unknown":       {oid(0xb), []core.ObjectID{first}, 1},
		"held unknown":       {first, []core.ObjectID{oid(1), oid(2)}, 1},
		"all unknown":        {oid(0xb), []core.ObjectID{oid(1)}, 3},
		"no base, none held": {"", nil, 3},
		"tip held":           {first, []core.ObjectID{tip}, 0},
	} {
		repo.Base = c.base
		held := slices.Clone(c.held)
		var pack strings.Builder
		err := writePack(t.Context(), &pack, repo, []core.ObjectID{tip}, c.held)
		if got := objects(pack.String()); err != nil || got != c.want {
			t.Errorf("%s: %d objects, %v; want %d", name, got, err, c.want)
		}
		if !slices.Equal(c.held, held) {
			t.Errorf("%s: the caller's list was changed", name)
		}
	}
	err := writePack(t.Context(), io.Discard, repo, []core.ObjectID{oid(7)}, []core.ObjectID{oid(7)})
	if err == nil || !strings.Contains(err.Error(), string(oid(7))) {
		t.Errorf("a tip that is missing: %v", err)
	}
}

// TestABusyHostIsTriedAgain: the reason passes, so it is no refusal.
func TestABusyHostIsTriedAgain(t *testing.T) {
	gitIs(t, `printf 'PACK...'`)
	repo := answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		tell(w, answered("unpack ok", "ng "+landingRef+string(branchName)+" busy: another git is at work"))
	})
	if refused, err := push(t.Context(), repo, one(1), nil); err == nil || !strings.Contains(err.Error(), "another git is at work") {
		t.Errorf("%v, %v", refused, err)
	}
}

func TestOnlyOneBranch(t *testing.T) {
	repos := []Repo{{Key: "a", Path: core.WorkspacePath, Branches: []core.BranchName{branchName}}, {Key: "b", Path: "/workspace/b"}}
	got, err := Only(repos, core.WorkspacePath, "topic")
	if err != nil || len(got) != 1 || got[0].Key != "a" || !slices.Equal(got[0].Branches, []core.BranchName{"topic"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if !slices.Equal(repos[0].Branches, []core.BranchName{branchName}) {
		t.Error("it changed the list")
	}
	for _, name := range []string{"--upload-pack=x", "a b", "refs/heads/x"} {
		if _, err := Only(repos, core.WorkspacePath, name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Only(repos, "/elsewhere", "topic"); err == nil {
		t.Error("no such repository")
	}
}
