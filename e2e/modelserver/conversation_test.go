package modelserver

import (
	"strings"
	"testing"
)

// told is what happened so far: "call ID" a result, "call ID: TEXT" one with
// text, "answer", "at N" a summary.
func told(lines ...string) []event {
	var events []event
	for _, line := range lines {
		if id, ok := strings.CutPrefix(line, "call "); ok {
			id, text, _ := strings.Cut(id, ": ")
			events = append(events, event{call: id, text: text})
			continue
		}
		c := conversation{}
		c.said("assistant", line)
		events = append(events, c.events...)
	}
	return events
}

func TestTheConversationTellsTheStep(t *testing.T) {
	script := commitScript(t)
	for name, c := range map[string]struct {
		events     []event
		step       int
		text, tool string
	}{
		"nothing yet":          {nil, 1, "I write a file.", "Write"},
		"after a call":         {told("call call_1_0"), 3, "Now I edit it.", "Edit"},
		"after more":           {told("call call_1_0", "call call_3_1", "call call_4_2"), 5, "", "Bash"},
		"end of a turn":        {told("call call_5_0"), 6, "The greeting is committed.", ""},
		"next turn":            {told("call call_5_0", "answer"), 7, "", "Bash"},
		"end of all":           {told("call call_7_0"), 8, "The log is read.", ""},
		"beyond the end":       {told("call call_7_0", "answer"), 9, ended, ""},
		"far beyond":           {told("answer", "answer", "answer", "answer"), 9, ended, ""},
		"a turn cut short":     {told("call call_1_0", "answer"), 7, "", "Bash"},
		"calls of others":      {told("call toolu_9", "call call_x_1", "call call_99_1", "call call_-1_0"), 1, "I write a file.", "Write"},
		"summed up":            {told("call call_1_0", "answer", "so far [at step 4] it went"), 4, "", "Read"},
		"on after the summary": {told("[at step 4]", "call call_4_0"), 5, "", "Bash"},
		"a false summary":      {told("[at step 99999]"), 9, ended, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := script.next(conversation{events: c.events, tools: claudeTools})
			if err != nil {
				t.Fatal(err)
			}
			tool := ""
			if got.call != nil {
				tool = got.call.name
			}
			if got.step != c.step || got.text != c.text || tool != c.tool {
				t.Errorf("got step %d %q %s, want step %d %q %s", got.step, got.text, tool, c.step, c.text, c.tool)
			}
			again, _ := script.next(conversation{events: c.events, tools: claudeTools})
			if again.id != got.id {
				t.Errorf("asked again the answer is %s and was %s", again.id, got.id)
			}
		})
	}
}

func TestSayWithoutMoreEndsTheTurn(t *testing.T) {
	got, err := Script{{Say: "a"}, {Say: "b"}}.next(conversation{tools: claudeTools})
	if err != nil || got.text != "a\n\nb" || got.step != 2 || got.call != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestIdsNeverComeTwiceInAConversation(t *testing.T) {
	script := Script{{Run: "sleep 60"}, {Finish: "done"}}
	c, seen := conversation{tools: codexPlainTools}, map[string]bool{}
	for range 4 {
		got, err := script.next(c)
		if err != nil || got.call == nil || got.step != 0 || seen[got.call.id] {
			t.Fatalf("got %+v, %v", got, err)
		}
		seen[got.call.id] = true
		c.events = append(c.events, event{call: got.call.id, text: "Process running with session ID 7\nOutput:\n"})
	}
}

func TestACommandThatStillRunsIsWaitedFor(t *testing.T) {
	const (
		running = "Chunk ID: 3a0a4c\nWall time: 30.0014 seconds\nProcess running with session ID 91234\nOriginal token count: 2\nOutput:\nstart\n"
		inCell  = "Script running with cell ID 1\nWall time 31.2 seconds\nOutput:\n"
		quoted  = "Process exited with code 0\nOutput:\nProcess running with session ID 5\n"
	)
	for name, c := range map[string]struct {
		offered   map[string]tool
		output    string
		tool, arg string
	}{
		"a session":            {codexPlainTools, running, "write_stdin", `{"chars":"","session_id":91234,"yield_time_ms":30000}`},
		"a program":            {codexTools, inCell, "wait", `{"cell_id":"1","yield_time_ms":30000}`},
		"words of the command": {codexPlainTools, quoted, "", ""},
		"another agent":        {claudeTools, running, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Script{{Run: "x"}, {Finish: "done"}}.next(conversation{tools: c.offered, events: []event{{call: "call_0_0", text: c.output}}})
			if err != nil {
				t.Fatal(err)
			}
			if c.tool == "" {
				if got.text != "done" {
					t.Errorf("got %+v, want the end", got)
				}
				return
			}
			if got.call == nil || got.call.name != c.tool || got.call.json() != c.arg || got.step != 0 {
				t.Errorf("got %+v, want %s %s", got.call, c.tool, c.arg)
			}
		})
	}
}

func TestRequestsBesideTheConversationAdvanceNothing(t *testing.T) {
	for name, c := range map[string]struct {
		conversation conversation
		want         string
	}{
		"no tools":         {conversation{}, sideAnswer},
		"tools of another": {conversation{tools: tools(map[string]string{"web_search": "query!"})}, sideAnswer},
		"a title":          {conversation{tools: codexTools, purpose: aside, form: &schema{Required: []string{"title"}}}, `{"title":"Scripted work"}`},
		"a summary":        {conversation{tools: claudeTools, purpose: summary, events: told("call call_3_0")}, "Scripted work [at step 4]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := commitScript(t).next(c.conversation)
			if err != nil || got.text != c.want || got.call != nil || got.step != sideStep {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
