package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is wrapped by every Parse function of this package when its input
// is refused, so that callers can answer "bad input" without matching text.
var ErrInvalid = errors.New("invalid")

// BranchPrefix starts the name of every box's own branch.
const BranchPrefix = "agentbox/"

// BranchName is a branch without "refs/heads/", safe to place in a refspec.
//
// The rules are those of git-check-ref-format(1), tightened: ASCII letters,
// digits and "._/-" only, at most 100 bytes, and the first byte a letter or a
// digit, so that a name can never be read as an option.
type BranchName string

var branchPattern = pattern(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$`)

// ParseBranchName validates s. The error wraps ErrInvalid and quotes s.
func ParseBranchName(s string) (BranchName, error) {
	if !branchPattern().MatchString(s) {
		return "", fmt.Errorf("branch name %s: %w: use letters, digits and . _ / -, starting with a letter or digit, at most 100 bytes", Untrusted(s).Quote(), ErrInvalid)
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, ".") {
			return "", fmt.Errorf("branch name %s: %w: git allows no part that is empty, begins or ends with a dot, or ends in .lock", Untrusted(s).Quote(), ErrInvalid)
		}
	}
	// In words "refs/heads/main" would read as main itself.
	if strings.Contains(s, "..") || s == "HEAD" || strings.HasPrefix(strings.ToLower(s), "refs/") {
		return "", fmt.Errorf("branch name %s: %w", Untrusted(s).Quote(), ErrInvalid)
	}
	return BranchName(s), nil
}

// Ref is the full reference name, "refs/heads/" and the branch.
func (b BranchName) Ref() string { return "refs/heads/" + string(b) }

// UnmarshalJSON refuses a name that ParseBranchName refuses; "" stays zero.
func (b *BranchName) UnmarshalJSON(data []byte) error { return unmarshalVia(data, b, ParseBranchName) }

// RemoteName names a git remote of the user's repository, such as "origin".
type RemoteName string

var remotePattern = pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ParseRemoteName validates s. The error wraps ErrInvalid.
func ParseRemoteName(s string) (RemoteName, error) {
	if !remotePattern().MatchString(s) || strings.Contains(s, "..") || strings.HasSuffix(s, ".lock") {
		return "", fmt.Errorf("remote name %s: %w", Untrusted(s).Quote(), ErrInvalid)
	}
	return RemoteName(s), nil
}

// UnmarshalJSON refuses a name that ParseRemoteName refuses; "" stays zero.
func (r *RemoteName) UnmarshalJSON(data []byte) error { return unmarshalVia(data, r, ParseRemoteName) }

// TagName is a tag without "refs/tags/", under the rules of BranchName.
type TagName string

// ParseTagName validates s. The error wraps ErrInvalid.
func ParseTagName(s string) (TagName, error) {
	b, err := ParseBranchName(s)
	if err != nil {
		return "", fmt.Errorf("tag name %s: %w", Untrusted(s).Quote(), ErrInvalid)
	}
	return TagName(b), nil
}

// ObjectID is a git object id in lower-case hex: 40 digits (SHA-1) or 64
// (SHA-256). All zeros means "no object", as in git's protocol.
type ObjectID string

var oidPattern = pattern(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// ParseObjectID validates s. The error wraps ErrInvalid.
func ParseObjectID(s string) (ObjectID, error) {
	if !oidPattern().MatchString(s) {
		return "", fmt.Errorf("object id %s: %w", Untrusted(s).Quote(), ErrInvalid)
	}
	return ObjectID(s), nil
}

// ZeroID is the null id of an object format whose ids have n hex digits.
func ZeroID(n int) ObjectID { return ObjectID(strings.Repeat("0", n)) }

// IsZero tells whether the id is empty or git's null id.
func (o ObjectID) IsZero() bool { return strings.Trim(string(o), "0") == "" }

// Short is the id's first twelve digits, for people.
func (o ObjectID) Short() string { return string(o[:min(12, len(o))]) }

// UnmarshalJSON refuses an id that ParseObjectID refuses; "" stays zero.
func (o *ObjectID) UnmarshalJSON(data []byte) error { return unmarshalVia(data, o, ParseObjectID) }

func unmarshalVia[T ~string](data []byte, dst *T, parse func(string) (T, error)) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s == "" {
		*dst = ""
		return nil
	}
	v, err := parse(s)
	if err != nil {
		return err
	}
	*dst = v
	return nil
}
