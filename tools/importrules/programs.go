package importrules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// gitOnly is the one package of the host that may name the git program.
const gitOnly = "relay/gitgate"

// notHost modules run elsewhere, in a box or in the project's own checks.
var notHost = []string{"ctl", "tools", "e2e"}

// starters are the functions that start a program, by import path. The name of
// the program is among their arguments.
var starters = map[string][]string{
	"os/exec":                  {"Command", "CommandContext", "LookPath"},
	"os":                       {"StartProcess"},
	"syscall":                  {"Exec", "ForkExec", "StartProcess"},
	"golang.org/x/sys/unix":    {"Exec"},
	"golang.org/x/sys/execabs": {"Command", "CommandContext", "LookPath"},
}

// Use is one place where a package can start a program.
type Use struct {
	Package string
	Call    string // such as "os/exec.Command"
	At      string // file:line
	Git     bool   // the program is git
}

// Programs finds the places in our code, tests aside, that start programs.
func Programs(g Graph) ([]Use, error) {
	var uses []Use
	for _, p := range g.ours() {
		files, fset, err := parse(p.Files)
		if err != nil {
			return nil, err
		}
		constants := stringConstants(files)
		for _, file := range files {
			uses = append(uses, usesIn(p.Path, file, fset, constants)...)
		}
	}
	return uses, nil
}

func parse(names []string) ([]*ast.File, *token.FileSet, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
	return files, fset, nil
}

// CheckGit returns a sentence for each place on the host, but for the one
// package that may, that names the git program.
func CheckGit(g Graph, uses []Use) []string {
	var found []string
	for _, u := range uses {
		if u.Git && u.Package != gitOnly && !slices.Contains(notHost, g.module(u.Package)) {
			found = append(found, fmt.Sprintf("%s: %s of git in %s: only %s may", u.At, u.Call, u.Package, gitOnly))
		}
	}
	return found
}

// usesIn walks one file; constants are the strings that its package names.
func usesIn(pkg string, file *ast.File, fset *token.FileSet, constants map[string]string) []Use {
	names := importedStarters(file)
	var uses []Use
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if call := started(n.Fun, names); call != "" {
				git := slices.ContainsFunc(n.Args, func(e ast.Expr) bool { return isGit(e, constants) })
				uses = append(uses, Use{pkg, call, place(fset, n), git})
			}
		case *ast.CompositeLit: // exec.Cmd{Path: "git"}
			if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Cmd" && names[identName(sel.X)] == "os/exec" {
				git := slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
					kv, ok := e.(*ast.KeyValueExpr)
					return ok && isGit(kv.Value, constants)
				})
				uses = append(uses, Use{pkg, "os/exec.Cmd", place(fset, n), git})
			}
		}
		return true
	})
	return uses
}

// importedStarters maps local names to the import paths in starters.
func importedStarters(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil || starters[p] == nil {
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// started is the full name of a starter that fun calls, else "".
func started(fun ast.Expr, names map[string]string) string {
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		p := names[identName(fun.X)]
		if slices.Contains(starters[p], fun.Sel.Name) {
			return p + "." + fun.Sel.Name
		}
	case *ast.Ident: // by a dot import
		if p := names["."]; slices.Contains(starters[p], fun.Name) {
			return p + "." + fun.Name
		}
	}
	return ""
}

func isGit(e ast.Expr, constants map[string]string) bool {
	var value string
	switch e := e.(type) {
	case *ast.BasicLit:
		value, _ = strconv.Unquote(e.Value)
	case *ast.Ident:
		value = constants[e.Name]
	}
	return value != "" && strings.TrimSuffix(path.Base(value), ".exe") == "git"
}

// stringConstants are the names, in any scope, that are given one string literal.
func stringConstants(files []*ast.File) map[string]string {
	constants := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						remember(constants, name, n.Values[i])
					}
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if name, ok := left.(*ast.Ident); ok && i < len(n.Rhs) {
						remember(constants, name, n.Rhs[i])
					}
				}
			}
			return true
		})
	}
	return constants
}

// remember keeps a name that was git anywhere as git.
func remember(constants map[string]string, name *ast.Ident, value ast.Expr) {
	if lit, ok := value.(*ast.BasicLit); ok && (lit.Kind == token.STRING) && !isGit(name, constants) {
		constants[name.Name], _ = strconv.Unquote(lit.Value)
	}
}

func identName(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func place(fset *token.FileSet, n ast.Node) string {
	at := fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
}
