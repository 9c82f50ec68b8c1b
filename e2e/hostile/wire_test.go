package hostile

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/madarco/agentbox/e2e/laptop"
	"github.com/madarco/agentbox/relay/pktline"
)

// request is what the box sends to its socket by hand. Its token is the box's
// own unless it says otherwise.
type request struct {
	name string
	// target is the path; KEY in it stands for the repository's key.
	method, target, kind string
	headers              []string
	token                string
	body                 []byte
	// seconds is how long the box waits for the answer, if not very long.
	seconds int
	// want must all be in the answer, which starts with the status.
	want []string
}

const zero = "0000000000000000000000000000000000000000"

// push is a request of receive-pack's protocol. A pack of nil is none.
func push(name string, pack []byte, want string, commands ...string) request {
	var body bytes.Buffer
	out := pktline.NewWriter(&body)
	for i, command := range commands {
		if i == 0 {
			command += "\x00report-status agent=hostile object-format=sha1"
		}
		_ = out.Printf("%s", command) // into a buffer
	}
	_ = out.Flush()
	body.Write(pack)
	return request{name: name, target: "/git/KEY/git-receive-pack", kind: "application/x-git-receive-pack-request", body: body.Bytes(), want: []string{want}}
}

// fetch asks for an object by its name.
func fetch(name, oid, want string) request {
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	body := line("command=fetch\n") + line("object-format=sha1\n") + "0001" + line("want "+oid+"\n") + line("done\n") + "0000"
	return request{
		name: name, target: "/git/KEY/git-upload-pack", kind: "application/x-git-upload-pack-request",
		headers: []string{"Git-Protocol: version=2"}, body: []byte(body), want: []string{want},
	}
}

// rpc is a request for a method.
func rpc(name, body string, want ...string) request {
	return request{name: name, target: "/rpc", kind: "application/json", body: []byte(body), want: want}
}

// admin asks for a route of the operator's.
func admin(method, target string) request {
	return request{
		name: method + " " + target, method: method, target: target, kind: "application/json", body: []byte("{}"),
		want: []string{"403", "no way to the operator"},
	}
}

// sent sends requests from the box, one after the other, and returns the answer
// to each as one line.
func sent(t *testing.T, l *laptop.Laptop, requests []request) []string {
	t.Helper()
	var script strings.Builder
	script.WriteString("set -e; rm -rf /tmp/sent; mkdir /tmp/sent; cd /tmp/sent; tar xf -\n" +
		"token=$(sudo sed -n 's/^AGENTBOX_RELAY_TOKEN=//p' /run/agentbox/relay.env); key=$(ls /run/agentbox/seed)\n")
	var files bytes.Buffer
	pack := tar.NewWriter(&files)
	for i, r := range requests {
		must(t, pack.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Mode: 0o600, Size: int64(len(r.body))}))
		_, err := pack.Write(r.body)
		must(t, err)
		method, token := "POST", "$token"
		if r.method != "" {
			method = r.method
		}
		if r.token != "" {
			token = r.token
		}
		headers := ""
		for _, h := range append(r.headers, "Content-Type: "+r.kind) {
			headers += fmt.Sprintf(" -H '%s'", h)
		}
		target := strings.Replace(r.target, "KEY", "'$key'", 1)
		fmt.Fprintf(&script, ": >%[5]d.out; curl -sS -m %[1]d --path-as-is -X %[2]s -H \"Authorization: Bearer %[3]s\"%[4]s --data-binary @%[5]d -w '\\n%%{http_code}' -o %[5]d.out --unix-socket /run/agentbox/relay/relay.sock 'http://relay%[6]s' >%[5]d.code 2>&1 || true\n",
			cmp.Or(r.seconds, 100), method, token, headers, i, target)
	}
	must(t, pack.Close())
	script.WriteString("tar cf - *.out *.code\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*laptop.Limit)
	defer cancel()
	r := l.RunContext(ctx, &files, "shell", l.Box, "--", "bash", "-c", script.String())
	if r.Code != 0 {
		t.Fatalf("the box could not send: exit %d, %s", r.Code, r.Err)
	}
	return answers(t, strings.NewReader(r.Out), len(requests))
}

func answers(t *testing.T, r io.Reader, count int) []string {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		data, err := io.ReadAll(in)
		must(t, err)
		files[h.Name] = string(data)
	}
	out := make([]string, count)
	for i := range out {
		text := strings.TrimSpace(files[fmt.Sprintf("%d.code", i)]) + " " + files[fmt.Sprintf("%d.out", i)]
		out[i] = strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " ")), " ")
	}
	return out
}

// secrets are objects of the host that no box may see, by what they are.
type secrets map[string]string

// parked are pushes that only a person lets through. The box gives up on the
// answer, and the question stays.
func parked(base, tip, otherBranch string) []request {
	r := push("main, and another box's branch", empty, "timed out", base+" "+tip+" refs/heads/main", zero+" "+tip+" refs/heads/"+otherBranch)
	tag := push("a tag", empty, "timed out", zero+" "+tip+" refs/tags/v1")
	r.seconds, tag.seconds = 3, 3
	return []request{r, tag}
}

// claims are pushes and landings that need no pack of the box's.
func claims(l *laptop.Laptop, base string, private secrets, otherBox, otherBranch string) []request {
	landing := "refs/agentbox/landing/"
	list := []request{
		push("landing on the user's main", nil, "is not the box's branch", zero+" "+base+" "+landing+"main"),
		push("landing on another box's branch", nil, "is not the box's branch", zero+" "+base+" "+landing+otherBranch),
		push("landing outside of branches", nil, "ng refs/agentbox/landing/", zero+" "+base+" "+landing+"refs/heads/main"),
		push("landing on a path", nil, "400", zero+" "+base+" "+landing+"../../../heads/main"),
		push("taking back what landed", nil, "can't be taken back", base+" "+zero+" "+landing+l.Branch),
		push("delete of main", nil, "may not delete", base+" "+zero+" refs/heads/main"),
		push("delete of the own branch", nil, "may not delete", base+" "+zero+" refs/heads/"+l.Branch),
		push("a mirror", nil, "another ref of this push was refused", zero+" "+base+" refs/heads/"+l.Branch, zero+" "+base+" refs/remotes/origin/main", base+" "+zero+" refs/heads/main"),
		push("refs/stash", nil, "branches and tags only", zero+" "+base+" refs/stash"),
		push("refs/remotes", nil, "branches and tags only", zero+" "+base+" refs/remotes/origin/main"),
		push("HEAD", nil, "400", zero+" "+base+" HEAD"),
		push("a branch that is an option", nil, "ng refs/heads/--receive-pack=x", zero+" "+base+" refs/heads/--receive-pack=x"),
		push("a branch with escapes", nil, "400", zero+" "+base+" refs/heads/\x1b]0;x\x07"),
		push("a branch of another alphabet", nil, "ng refs/heads/", zero+" "+base+" refs/heads/mаin"),
		push("a push certificate", nil, "400", "push-cert"),
		{
			name: "dumb protocol", method: "GET", target: "/git/KEY/objects/info/packs", kind: "text/plain", want: []string{"404"},
		},
		{
			name: "a service of another name", method: "GET", target: "/git/KEY/info/refs?service=git-upload-archive", kind: "text/plain", want: []string{"403"},
		},
		{
			name: "another repository's key", method: "GET", target: "/git/0123456789abcdef/info/refs?service=git-upload-pack", kind: "text/plain", want: []string{"404"},
		},
	}
	for name, oid := range private {
		list = append(list,
			push("landing "+name+" by hash", empty, refused, zero+" "+oid+" "+landing+l.Branch),
			push("pushing "+name+" by hash", empty, refused, zero+" "+oid+" refs/heads/"+l.Branch),
			fetch("fetching "+name+" by hash", oid, "not our ref"),
		)
	}
	return append(list, identity(otherBox)...)
}

// identity are requests of somebody else, and for somebody else.
func identity(otherToken string) []request {
	as := func(name, token, target string) request {
		return request{name: name, target: target, kind: "application/json", token: token, body: []byte(`{"method":"git.push","params":{"path":"/workspace"}}`), want: []string{"401"}}
	}
	list := []request{
		as("another box's token", otherToken, "/rpc"),
		as("another box's token at the endpoint", otherToken, "/git/KEY/git-receive-pack"),
		as("no token", "''", "/rpc"),
		as("a made-up token", "abx_made_up", "/events"),
		{name: "a web page", target: "/rpc", kind: "application/json", headers: []string{"Origin: http://evil.example"}, body: []byte("{}"), want: []string{"403", "web pages"}},
		{name: "a second way to write a path", target: "/git/KEY/..%2f..%2fadmin", kind: "text/plain", want: []string{"404"}},
		{name: "a path to admin through git", target: "/git/KEY/../../admin/registry", kind: "text/plain", want: []string{"404"}},
	}
	for _, route := range []string{"/admin", "/admin/registry", "/admin/prompts", "/admin/prompts/answer", "/admin/land", "/admin/register-box", "/admin/shutdown", "/admin/audit", "/admin/store"} {
		list = append(list, admin("POST", route), admin("GET", route))
	}
	return list
}

// calls are abuses of the methods that a box may call.
func calls(l *laptop.Laptop) []request {
	params := func(method, rest string) string {
		return `{"method":"` + method + `","params":{"path":"/workspace"` + rest + `}}`
	}
	return []request{
		rpc("remote . with --upload-pack", params("git.fetch", `,"remote":".","args":["--upload-pack=touch /tmp/x"]`), "500", "exitCode"),
		rpc("--upload-pack", params("git.fetch", `,"args":["--upload-pack=touch /tmp/x"]`), "500", "is not taken"),
		rpc("--receive-pack", params("git.push", `,"args":["--receive-pack=touch /tmp/x"]`), "500", "is not taken"),
		rpc("--exec", params("git.push", `,"args":["--exec=touch /tmp/x"]`), "500", "is not taken"),
		rpc("a remote that starts with --", params("git.fetch", `,"remote":"--upload-pack=touch /tmp/x"`), "500", "is not the recorded one"),
		rpc("a remote that is a path", params("git.push", `,"remote":"`+l.Home+`/src/other"`), "500", "is not the recorded one"),
		rpc("a refspec for an argument", params("git.push", `,"args":["+HEAD:refs/heads/main"]`), "500", "is not taken"),
		rpc("--delete", params("git.push", `,"args":["--delete","main"]`), "500", "is not taken"),
		rpc("--mirror", params("git.push", `,"args":["--mirror"]`), "500", "is not taken"),
		rpc(":main", params("git.push", `,"args":[":main"]`), "500", "is not taken"),
		rpc("a branch that is an option", params("git.push", `,"branch":"--receive-pack=x"`), "500", "exitCode"),
		rpc("a branch that is a refspec", params("git.push", `,"branch":"+HEAD:refs/heads/main"`), "500", "exitCode"),
		rpc("--host-only --as main --force", params("git.push", `,"hostOnly":true,"as":"main","force":true`), "500", "main stays where it is"),
		rpc("another path", `{"method":"git.push","params":{"path":"`+l.Project+`"}}`, "500", "no repository of the box"),
		rpc("a path with ..", `{"method":"git.push","params":{"path":"/workspace/../../etc"}}`, "500", "no repository of the box"),
		rpc("an unknown method", `{"method":"git.config","params":{}}`, "501"),
		rpc("a method with escapes", `{"method":"\u001b]0;owned\u0007\u202e","params":{}}`, "501"),
		rpc("git.clone", `{"method":"git.clone","params":{"url":"ext::sh -c touch"}}`, "501"),
		rpc("an extra key", params("git.push", `,"env":{"GIT_SSH_COMMAND":"touch /tmp/x"}`), "exitCode"),
		rpc("a key twice", `{"method":"git.push","method":"git.fetch","params":{}}`, "400"),
		rpc("a key in another case", `{"Method":"git.push","params":{}}`, "400"),
		rpc("data behind the request", `{"method":"git.push"} {}`, "400"),
		rpc("no UTF-8", "{\"method\":\"\xff\"}", "400"),
		rpc("deep nesting", `{"method":"git.push","params":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`}`, "400"),
		rpc("a body without end", `{"method":"`+strings.Repeat("a", 4<<20)+`"}`, "413"),
		{name: "an event that looks like the relay's", target: "/events", kind: "application/json", body: []byte(`{"type":"relay.approved"}`), want: []string{"400"}},
		{name: "an event with escapes", target: "/events", kind: "application/json", body: []byte(`{"type":"\u001b]0;owned\u0007","payload":{"a":"\u001b[2J\u202e"}}`), want: []string{"20"}},
		{name: "a status of another box", target: "/events", kind: "application/json", body: []byte(`{"type":"box-status","payload":{"schema":1,"boxId":"b00000000"}}`), want: []string{"400"}},
	}
}
