package modelserver

import (
	"encoding/json"
	"strings"
	"testing"
)

// tools describes functions by name and arguments; required ones end in "!".
func tools(described map[string]string) map[string]tool {
	all := map[string]tool{}
	for name, arguments := range described {
		t := tool{kind: function, schema: schema{Properties: map[string]json.RawMessage{}}}
		for argument := range strings.FieldsSeq(arguments) {
			bare, required := strings.CutSuffix(argument, "!")
			t.schema.Properties[bare] = nil
			if required {
				t.schema.Required = append(t.schema.Required, bare)
			}
		}
		all[name] = t
	}
	return all
}

// The tools that the agents offer, as far as the mappings know them.
var (
	claudeTools = tools(map[string]string{
		"Bash":  "command! description timeout run_in_background",
		"Read":  "file_path! offset limit",
		"Write": "file_path! content!",
		"Edit":  "file_path! old_string! new_string! replace_all",
		"Agent": "description! prompt!",
	})
	openCodeTools = tools(map[string]string{
		"bash":  "command! timeout workdir",
		"read":  "filePath! offset limit",
		"write": "filePath! content!",
		"edit":  "filePath! oldString! newString! replaceAll",
	})
	// Codex with a model that it knows, and with one that it does not know.
	codexTools = map[string]tool{
		"exec": {kind: custom, namespace: "functions"},
		"wait": {kind: function, namespace: "functions", schema: tools(map[string]string{"wait": "cell_id! yield_time_ms"})["wait"].schema},
	}
	codexPlainTools = tools(map[string]string{
		"exec_command": "cmd! yield_time_ms workdir",
		"write_stdin":  "session_id! chars yield_time_ms",
	})
)

func with(base map[string]tool, name string, t tool) map[string]tool {
	all := map[string]tool{name: t}
	for n, t := range base {
		all[n] = t
	}
	return all
}

func TestEachStepBecomesTheAgentsOwnTool(t *testing.T) {
	var (
		run   = Step{Run: "git push", Timeout: 90}
		read  = Step{Read: "it's.txt"}
		write = Step{Write: &Write{Path: "a.txt", Content: "one\ntwo\n"}}
		edit  = Step{Edit: &Edit{Path: "a.txt", Old: "two", New: "2\n3"}}
	)
	const (
		added   = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch"
		changed = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n+3\n*** End Patch"
	)
	oldCodex := tools(map[string]string{"shell": "command! timeout_ms", "apply_patch": "input!"})
	for name, c := range map[string]struct {
		offered map[string]tool
		step    Step
		tool    string
		want    string // the arguments, or the input
	}{
		"claude run":   {claudeTools, run, "Bash", `{"command":"git push","description":"Run git push","timeout":90000}`},
		"claude read":  {claudeTools, read, "Read", `{"file_path":"it's.txt"}`},
		"claude write": {claudeTools, write, "Write", `{"content":"one\ntwo\n","file_path":"a.txt"}`},
		"claude edit":  {claudeTools, edit, "Edit", `{"file_path":"a.txt","new_string":"2\n3","old_string":"two"}`},

		"opencode run":   {openCodeTools, run, "bash", `{"command":"git push","timeout":90000}`},
		"opencode read":  {openCodeTools, read, "read", `{"filePath":"it's.txt"}`},
		"opencode write": {openCodeTools, write, "write", `{"content":"one\ntwo\n","filePath":"a.txt"}`},
		"opencode edit":  {openCodeTools, edit, "edit", `{"filePath":"a.txt","newString":"2\n3","oldString":"two"}`},

		"codex write": {codexTools, write, "exec", "text(await tools.apply_patch(" + literal(added) + "));\n"},
		"codex edit":  {codexTools, edit, "exec", "text(await tools.apply_patch(" + literal(changed) + "));\n"},

		"codex plain run":   {codexPlainTools, run, "exec_command", `{"cmd":"git push","yield_time_ms":30000}`},
		"codex plain read":  {codexPlainTools, read, "exec_command", `{"cmd":"cat -- 'it'\\''s.txt'","yield_time_ms":30000}`},
		"codex plain write": {codexPlainTools, write, "exec_command", `{"cmd":` + literal("apply_patch <<'END_OF_PATCH'\n"+added+"\nEND_OF_PATCH") + `,"yield_time_ms":30000}`},
		"codex with a patch tool": {
			with(codexPlainTools, "apply_patch", tool{kind: custom}), edit, "apply_patch", changed,
		},
		"codex patch tool leaves commands": {
			with(codexPlainTools, "apply_patch", tool{kind: custom}), run, "exec_command", `{"cmd":"git push","yield_time_ms":30000}`,
		},
		"codex shell":       {oldCodex, run, "shell", `{"command":["bash","-lc","git push"],"timeout_ms":90000}`},
		"codex shell patch": {oldCodex, edit, "apply_patch", `{"input":` + literal(changed) + `}`},
		"codex shell_command": {
			tools(map[string]string{"shell_command": "command! timeout_ms"}), run, "shell_command", `{"command":"git push","timeout_ms":90000}`,
		},
		"codex local shell": {map[string]tool{localShell: {kind: localShell}}, run, localShell, "git push"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := use(c.step, c.offered)
			if err != nil {
				t.Fatal(err)
			}
			text := got.input
			if got.kind == function {
				text = unescaped(t, got.json())
			}
			if got.name != c.tool || text != unescaped(t, c.want) {
				t.Errorf("got %s %s, want %s %s", got.name, text, c.tool, c.want)
			}
		})
	}
}

// unescaped brings JSON into one form; other text stays.
func unescaped(t *testing.T, text string) string {
	var value any
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	return string(encode(value))
}

func TestCommandsOfCodexAreWaitedForInTheProgram(t *testing.T) {
	got, err := use(Step{Run: `echo "a"`}, codexTools)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`tools.exec_command({cmd: "echo \"a\"",`, "tools.write_stdin({session_id: r.session_id", `"exit code " + r.exit_code`} {
		if !strings.Contains(got.input, want) {
			t.Errorf("the program lacks %q:\n%s", want, got.input)
		}
	}
	if got.namespace != "functions" {
		t.Errorf("namespace %q", got.namespace)
	}
}

func TestDriftOfAnAgentsToolsIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		offered map[string]tool
		want    string
	}{
		"argument gone":     {tools(map[string]string{"Bash": "command!"}), "tool Bash has no argument description"},
		"argument demanded": {tools(map[string]string{"Bash": "command! description reason!"}), "tool Bash requires the argument reason"},
		"no tool fits":      {tools(map[string]string{"Write": "file_path! content!"}), "no offered tool takes it; offered are Write"},
		"other kind":        {map[string]tool{"Bash": {kind: custom}}, "no offered tool takes it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := use(Step{Run: "true"}, c.offered)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
