package modelserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mapping turns a step into the use of one tool of one agent. It returns nil
// for steps that the tool is not for.
type mapping struct {
	name, kind string
	arguments  func(Step) object // of a function
	input      func(Step) string // of a custom tool or the local shell
}

type object = map[string]any

// mappings are tried in order; the first whose tool is offered and fits is
// used. Claude Code and OpenCode take relative paths as well as absolute ones.
var mappings = []mapping{
	// Claude Code.
	{name: "Bash", kind: function, arguments: forRun(func(s Step) object {
		return withTimeout(object{"command": s.Run, "description": describe(s)}, "timeout", s)
	})},
	{name: "Read", kind: function, arguments: forRead("file_path")},
	{name: "Write", kind: function, arguments: forWrite("file_path", "content")},
	{name: "Edit", kind: function, arguments: forEdit("file_path", "old_string", "new_string")},
	// OpenCode.
	{name: "bash", kind: function, arguments: forRun(func(s Step) object {
		return withTimeout(object{"command": s.Run}, "timeout", s)
	})},
	{name: "read", kind: function, arguments: forRead("filePath")},
	{name: "write", kind: function, arguments: forWrite("filePath", "content")},
	{name: "edit", kind: function, arguments: forEdit("filePath", "oldString", "newString")},
	// Codex: a program that calls its other tools, or these tools themselves.
	{name: "exec", kind: custom, input: program},
	{name: "apply_patch", kind: custom, input: patch},
	{name: "apply_patch", kind: function, arguments: func(s Step) object {
		if p := patch(s); p != "" {
			return object{"input": p}
		}
		return nil
	}},
	{name: "exec_command", kind: function, arguments: forShell(func(_ Step, command string) object {
		return object{"cmd": command, "yield_time_ms": longestYield}
	})},
	{name: "shell_command", kind: function, arguments: forShell(func(s Step, command string) object {
		return withTimeout(object{"command": command}, "timeout_ms", s)
	})},
	{name: "shell", kind: function, arguments: forShell(func(s Step, command string) object {
		return withTimeout(object{"command": []string{"bash", "-lc", command}}, "timeout_ms", s)
	})},
	{name: localShell, kind: localShell, input: shell},
}

// Kinds of tools.
const (
	function   = "function"
	custom     = "custom"
	localShell = "local_shell"
)

// longestYield is in milliseconds how long Codex at most lets one call wait.
const longestYield = 30000

// worksWith tells whether somebody who is offered these tools can work with
// them. Requests for a title or a summary offer none.
func worksWith(offered map[string]tool) bool {
	return slices.ContainsFunc(mappings, func(m mapping) bool { return m.offered(offered) })
}

func (m mapping) offered(tools map[string]tool) bool {
	t, ok := tools[m.name]
	return ok && t.kind == m.kind
}

// use is the call that makes the agent take a step.
func use(s Step, offered map[string]tool) (call, error) {
	for _, m := range mappings {
		if !m.offered(offered) {
			continue
		}
		c := call{name: m.name, kind: m.kind, namespace: offered[m.name].namespace}
		if m.kind == function {
			c.arguments = m.arguments(s)
		} else {
			c.input = m.input(s)
		}
		if c.arguments != nil || c.input != "" {
			return c, check(c, offered)
		}
	}
	return call{}, fmt.Errorf("no offered tool takes it; offered are %s",
		strings.Join(slices.Sorted(maps.Keys(offered)), ", "))
}

// check holds a call against what the agent says that the tool takes, so that
// an agent's new version is noticed here and not in a strange result.
func check(c call, offered map[string]tool) error {
	t, ok := offered[c.name]
	if !ok {
		return fmt.Errorf("tool %s is not offered", c.name)
	}
	if c.kind != function {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.arguments)) {
		if _, known := t.schema.Properties[name]; !known {
			return fmt.Errorf("tool %s has no argument %s", c.name, name)
		}
	}
	for _, name := range t.schema.Required {
		if _, given := c.arguments[name]; !given {
			return fmt.Errorf("tool %s requires the argument %s, which the mapping does not give", c.name, name)
		}
	}
	return nil
}

func describe(s Step) string {
	line, _, _ := strings.Cut(s.Run, "\n")
	return "Run " + line
}

func withTimeout(o object, name string, s Step) object {
	if s.Timeout != 0 {
		o[name] = s.limit().Milliseconds()
	}
	return o
}

func forRun(arguments func(Step) object) func(Step) object {
	return func(s Step) object {
		if s.Run == "" {
			return nil
		}
		return arguments(s)
	}
}

func forRead(file string) func(Step) object {
	return func(s Step) object {
		if s.Read == "" {
			return nil
		}
		return object{file: s.Read}
	}
}

func forWrite(file, content string) func(Step) object {
	return func(s Step) object {
		if s.Write == nil {
			return nil
		}
		return object{file: s.Write.Path, content: s.Write.Content}
	}
}

func forEdit(file, old, replacement string) func(Step) object {
	return func(s Step) object {
		if s.Edit == nil {
			return nil
		}
		return object{file: s.Edit.Path, old: s.Edit.Old, replacement: s.Edit.New}
	}
}

func forShell(arguments func(s Step, command string) object) func(Step) object {
	return func(s Step) object { return arguments(s, shell(s)) }
}

// shell is a step as a command for Codex, which takes a patch as a command
// where it offers no tool for patches.
func shell(s Step) string {
	switch {
	case s.Run != "":
		return s.Run
	case s.Read != "":
		return "cat -- " + quote(s.Read)
	}
	return "apply_patch <<'END_OF_PATCH'\n" + patch(s) + "\nEND_OF_PATCH"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// patch is a step in Codex's patch format, "" if it changes no file.
func patch(s Step) string {
	var b strings.Builder
	switch {
	case s.Write != nil:
		b.WriteString("*** Begin Patch\n*** Add File: " + s.Write.Path + "\n")
		for line := range strings.Lines(s.Write.Content) {
			b.WriteString("+" + line)
		}
	case s.Edit != nil:
		b.WriteString("*** Begin Patch\n*** Update File: " + s.Edit.Path + "\n@@\n")
		for line := range strings.SplitSeq(s.Edit.Old, "\n") {
			b.WriteString("-" + line + "\n")
		}
		for line := range strings.SplitSeq(s.Edit.New, "\n") {
			b.WriteString("+" + line + "\n")
		}
	default:
		return ""
	}
	b.WriteString("*** End Patch")
	return b.String()
}

// program is a step as JavaScript for Codex's tool exec. A command that takes
// long gives a session back, which is waited on here.
func program(s Step) string {
	if p := patch(s); p != "" {
		return "text(await tools.apply_patch(" + literal(p) + "));\n"
	}
	return `// @exec: {"yield_time_ms": ` + strconv.Itoa(longestYield) + `}
let r = await tools.exec_command({cmd: ` + literal(shell(s)) + `, yield_time_ms: ` + strconv.Itoa(longestYield) + `});
let output = r.output;
while (r.exit_code === undefined && r.session_id !== undefined) {
  r = await tools.write_stdin({session_id: r.session_id, chars: "", yield_time_ms: ` + strconv.Itoa(longestYield) + `});
  output += r.output;
}
text("exit code " + r.exit_code + "\n" + output);
`
}

// literal is a string in JavaScript; JSON is a subset of that.
func literal(s string) string { return string(encode(s)) }

var (
	session = regexp.MustCompile(`(?m)^Process running with session ID ([1-9]\d{0,17})$`)
	cell    = regexp.MustCompile(`(?m)^Script running with cell ID (\S+)$`)
)

// wait is the call that waits on when a result of Codex says that the command
// or the program still runs, else nil. It looks at the head of the result: the
// output that follows is the command's own.
func wait(result string, offered map[string]tool) *call {
	head, _, _ := strings.Cut(result, "\nOutput:")
	c := call{kind: function, arguments: object{"yield_time_ms": longestYield}}
	if m := cell.FindStringSubmatch(head); m != nil {
		c.name = "wait"
		c.arguments["cell_id"] = m[1]
	} else if m := session.FindStringSubmatch(head); m != nil {
		c.name = "write_stdin"
		c.arguments["session_id"], c.arguments["chars"] = json.Number(m[1]), ""
	}
	t, ok := offered[c.name]
	if !ok {
		return nil
	}
	c.namespace = t.namespace
	return &c
}
