package fail

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/state"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// rules give the errors of other packages their code and next step; the first
// that knows an error wins.
var rules = []func(error) *Error{
	reference,
	unknownField,
	is(state.ErrNameTaken, Usage, "choose another name with --name"),
	is(state.ErrNewer, State, "update agentbox, or set AGENTBOX_HOME to another folder"),
	is(state.ErrCorrupt, State, "look at the file: repair it, or move it away to begin anew; nothing has written to it"),
	is(provider.ErrNoSpace, Unavailable, "make room where the engine keeps its data: docker system df shows what takes it, docker image prune frees some"),
	is(provider.ErrNoImage, Unavailable, "agentbox prepare tries again and shows each step; to build the image takes a network"),
	is(provider.ErrUnknownImage, Unavailable, "docker pull it, or leave out --image and box.image"),
	is(provider.ErrWrongImage, Unavailable, ""),
	unavailable,
	is(provider.ErrUnavailable, Unavailable, "agentbox doctor"),
	is(provider.ErrNotRunning, Failed, "agentbox start <box>"),
	is(provider.ErrNameTaken, Usage, "choose another name with --name"),
	is(provider.ErrNotFound, Failed, "agentbox destroy <box> removes the record of a box that is gone"),
	is(provider.ErrUnsupported, Usage, ""),
	is(client.ErrNotRunning, Relay, "agentbox relay start"),
	is(workspace.ErrTooWide, Refused, "make the project a folder of its own"),
	is(gitgate.ErrUnsafeFolder, Refused, "make the project a folder of its own"),
	is(gitgate.ErrReplaced, Refused, "agentbox list --all"),
	is(gitgate.ErrNotRepository, Usage, "git init, and make a first commit"),
	is(workspace.ErrNoRepository, Usage, "git init, and make a first commit; or leave --from and --use-branch out"),
	is(gitgate.ErrNoCommit, Usage, "git branch -a shows what there is"),
	is(gitgate.ErrBare, Usage, "run it in a clone"),
	is(gitgate.ErrUnborn, Usage, "git commit --allow-empty -m start"),
	is(gitgate.ErrBroken, Refused, "git status there says what is wrong; repair it, or move its .git away to use it as a plain folder"),
	is(gitgate.ErrIncomplete, Refused, "git archive HEAD >/dev/null fetches what is missing, in the project"),
	is(gitgate.ErrFull, Unavailable, "make room, for example with agentbox seed purge or docker system prune"),
	is(gitgate.ErrNotOwner, Refused, "run it as the owner of the repository"),
	is(gitgate.ErrInTheWay, Usage, ""),
	is(gitgate.ErrNoGit, Unavailable, ""),
	is(core.ErrInvalid, Usage, ""),
	file,
}

// file is a file or folder that could not be used. Most often it is the state
// folder; the message names it.
func file(err error) *Error {
	var path *fs.PathError
	switch {
	case !errors.As(err, &path):
		return nil
	case errors.Is(path, syscall.ENOSPC):
		return &Error{Code: Unavailable, Next: "make room there, for example with agentbox seed purge, or set AGENTBOX_HOME to another disk"}
	case errors.Is(path, fs.ErrPermission), errors.Is(path, syscall.EROFS), errors.Is(path, syscall.ENOTDIR):
		return &Error{Code: Failed, Next: "agentbox doctor tries what has to be writable; AGENTBOX_HOME names another state folder"}
	}
	return nil
}

func is(sentinel error, code Code, next string) func(error) *Error {
	return func(err error) *Error {
		if errors.Is(err, sentinel) {
			return &Error{Code: code, Next: next}
		}
		return nil
	}
}

// unavailable is what knows itself how to be reached again.
func unavailable(err error) *Error {
	var gone *provider.UnavailableError
	if !errors.As(err, &gone) {
		return nil
	}
	return &Error{Code: Unavailable, Next: gone.Next}
}

// reference explains a box reference that names no single box.
func reference(err error) *Error {
	var ref *state.RefError
	if !errors.As(err, &ref) {
		return nil
	}
	e := &Error{Code: Usage, Next: "agentbox list --all"}
	for _, b := range ref.Candidates {
		row := fmt.Sprintf("%d) %s  (id %s)", b.ProjectIndex, b.Name, b.ID)
		if b.ProjectRoot != ref.ProjectRoot {
			row = fmt.Sprintf("%s  (id %s, in %s)", b.Name, b.ID, b.ProjectRoot)
		}
		e.Rows = append(e.Rows, row)
	}
	switch ref.Failure {
	case state.RefNone:
		e.Next = "agentbox create makes one; agentbox list --all shows those of other projects"
	case state.RefSeveral:
		e.Next = "say which one, by number, name or id"
	case state.RefAmbiguous:
		e.Next = "use more digits of the id, or the name"
	case state.RefNotFound:
		if len(ref.Candidates) > 0 {
			e.Next = "did you mean one of these? agentbox list --all shows every box"
		}
	case state.RefBadIndex:
		e.Next = "agentbox list"
	}
	return e
}

func unknownField(err error) *Error {
	var field *output.UnknownFieldError
	if !errors.As(err, &field) {
		return nil
	}
	return &Error{Code: Usage, Next: "fields:", Rows: field.Known}
}
