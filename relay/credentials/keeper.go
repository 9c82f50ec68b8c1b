package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
)

// Lent is what was copied into one box: by agent, the account, empty where the
// agent's file names none. Whoever copies a login into a box writes it with
// Lend; a box without it neither sends nor receives.
type Lent map[Agent]string

// source is what is known of a kept login beside itself.
type source struct {
	BoxID      string    `json:"boxId"`
	CapturedAt time.Time `json:"capturedAt"`
}

// Keeper keeps the backups of one home. It is safe for concurrent use; one
// process at a time may have one.
type Keeper struct {
	home core.Home
	now  func() time.Time
	mu   sync.Mutex
}

// New makes a keeper that reads the time from now.
func New(home core.Home, now func() time.Time) *Keeper { return &Keeper{home: home, now: now} }

// Taken is what came of an offer, without anything of the login.
type Taken struct {
	Agent   Agent
	Account string
	// Dropped counts entries that were left out of what was taken.
	Dropped int
}

func (k *Keeper) file(a Agent) string {
	return filepath.Join(string(k.home), string(a)+"-credentials.json")
}

func (k *Keeper) sourceFile(a Agent) string {
	return filepath.Join(filepath.Dir(k.home.RelayDB()), string(a)+"-login.json")
}

func lentFile(home core.Home, boxID string) string {
	return filepath.Join(home.Box(boxID), "logins.json")
}

// Lend records that the login of an agent, as it is kept, was copied into the
// box.
func (k *Keeper) Lend(boxID string, a Agent) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	content, err := os.ReadFile(k.file(a))
	if err != nil {
		return fmt.Errorf("lend the login of %s: %w", a, err)
	}
	lent, err := k.lent(boxID)
	if err != nil {
		return err
	}
	if lent == nil {
		lent = Lent{}
	}
	lent[a] = accountOf(a, content)
	if err := os.MkdirAll(k.home.Box(boxID), 0o700); err != nil {
		return fmt.Errorf("lend the login of %s: %w", a, err)
	}
	return writeJSON(lentFile(k.home, boxID), lent)
}

// accountOf is the account that an agent's file names.
func accountOf(a Agent, content []byte) string {
	var file struct {
		Tokens codexTokens `json:"tokens"`
	}
	if a != Codex || json.Unmarshal(content, &file) != nil {
		return ""
	}
	return file.Tokens.AccountID
}

func (k *Keeper) lent(boxID string) (Lent, error) {
	var lent Lent
	return lent, readJSON(lentFile(k.home, boxID), &lent)
}

// Take judges what a box offers and keeps it: the version before it lies beside
// it as .previous. record is called before anything is written, and its error
// prevents that. Errors: ErrOlder, ErrRefused, record's, or that a file can't be
// written; none repeats anything of the login.
func (k *Keeper) Take(boxID string, payload json.RawMessage, record func(Taken) error) (Taken, error) {
	now := k.now()
	o, offered, err := decode(payload, now)
	t := Taken{Agent: o.Agent}
	if err != nil {
		return t, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lent, err := k.lent(boxID)
	if err != nil {
		return t, err
	}
	account, ok := lent[o.Agent]
	if !ok {
		return t, refused("none was copied into this box")
	}
	t.Account = account
	have, err := k.read(o.Agent)
	if err != nil {
		return t, err
	}
	if accountOf(o.Agent, have.content) != account {
		return t, refused("the host's login is another account's by now")
	}
	v, err := judge(o.Agent, have, offered, o.CapturedAt, now)
	t.Dropped = v.dropped
	if err == nil {
		err = record(t)
	}
	if err != nil {
		return t, err
	}
	return t, k.write(o.Agent, have, v.content, source{BoxID: boxID, CapturedAt: o.CapturedAt})
}

func (k *Keeper) read(a Agent) (kept, error) {
	content, err := os.ReadFile(k.file(a))
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, refused("the host keeps none")
	}
	if err != nil {
		return kept{}, fmt.Errorf("read the login of %s: %w", a, err)
	}
	var from source
	err = readJSON(k.sourceFile(a), &from)
	return kept{content, from.CapturedAt}, err
}

// write notes the source last: cut before that, the same offer comes again and
// is found to be what is kept.
func (k *Keeper) write(a Agent, have kept, content []byte, from source) error {
	if err := atomicfile.Write(k.file(a)+".previous", have.content, 0o600); err != nil {
		return err
	}
	if err := atomicfile.Write(k.file(a), content, 0o600); err != nil {
		return err
	}
	return writeJSON(k.sourceFile(a), from)
}

func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, raw, 0o600)
}

// readJSON leaves v as it is when there is no file.
func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
