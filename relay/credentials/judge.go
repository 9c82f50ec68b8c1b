// Package credentials decides whether the login that an agent has renewed in a
// box becomes the user's backup of it on the host, and keeps that backup.
//
// What a box offers is the box's text: another box may come to run on it. So
// only a login that was copied into that very box can be replaced by it, by a
// newer one of the same account, field by field of a closed list.
//
// Invariants:
//   - A login is written to one file per agent, mode 0600, and to no log, no
//     event, no error and no audit entry. Errors of this package name what is
//     wrong and never quote it.
//   - A change of account is refused, and so is a provider that the host's file
//     does not hold, whatever the box says about it.
//   - A time that lies too far ahead is refused: it would win for ever.
package credentials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// Agent names whose login it is.
type Agent string

// The agents whose logins are known.
const (
	Claude   Agent = "claude"
	Codex    Agent = "codex"
	OpenCode Agent = "opencode"
)

// Errors that callers branch on. None repeats anything of a login.
var (
	// ErrOlder: what is kept is as new, or the same. Nothing is wrong.
	ErrOlder = errors.New("the login that is kept is as new")
	// ErrRefused: the login may not replace what is kept.
	ErrRefused = errors.New("the login was refused")
)

const (
	// maxContent bounds the base64 of a login.
	maxContent = 256 << 10
	// maxAhead bounds how far ahead a login may expire: no agent's lives a year.
	maxAhead = 400 * 24 * time.Hour
	// maxSkew is how far a box's clock may be ahead of the host's.
	maxSkew = 5 * time.Minute
)

// Offer is the payload of wire.CredentialsEvent.
type Offer struct {
	Schema        int       `json:"schema"`
	Agent         Agent     `json:"agent"`
	ContentBase64 string    `json:"contentBase64"`
	CapturedAt    time.Time `json:"capturedAt"`
}

// decode reads an offer and the login in it.
func decode(payload []byte, now time.Time) (Offer, []byte, error) {
	var o Offer
	if err := wire.Decode(payload, &o); err != nil {
		return Offer{}, nil, refused("it is no offer of a login") // the cause may quote it
	}
	switch o.Agent {
	case Claude, Codex, OpenCode:
	default:
		return Offer{}, nil, refused("the agent is unknown")
	}
	switch {
	case o.Schema != 1:
		return o, nil, refused("the schema is unknown")
	case len(o.ContentBase64) > maxContent:
		return o, nil, refused("it is too large")
	case o.CapturedAt.IsZero() || o.CapturedAt.After(now.Add(maxSkew)):
		return o, nil, refused("its time is missing or lies ahead")
	}
	content, err := base64.StdEncoding.Strict().DecodeString(o.ContentBase64)
	if err != nil {
		return o, nil, refused("it is not base64")
	}
	return o, content, nil
}

func refused(why string) error { return fmt.Errorf("%w: %s", ErrRefused, why) }

// kept is what the host has of an agent's login.
type kept struct {
	content    []byte
	capturedAt time.Time
}

// verdict is what comes of a good offer.
type verdict struct {
	content []byte // to be written
	account string // empty where the agent's file names none
	dropped int    // entries that were not taken
}

// judge merges what an agent offers into what is kept. Errors: ErrOlder,
// ErrRefused.
func judge(agent Agent, have kept, offered []byte, capturedAt, now time.Time) (verdict, error) {
	var v verdict
	var err error
	switch agent {
	case Claude:
		v, err = judgeClaude(have.content, offered, now)
	case Codex:
		v, err = judgeCodex(have.content, offered, capturedAt)
	case OpenCode:
		v, err = judgeOpenCode(have.content, offered, now)
	}
	switch {
	case err != nil:
		return v, err
	case bytes.Equal(v.content, have.content), agent != Claude && !capturedAt.After(have.capturedAt):
		return v, ErrOlder
	}
	return v, nil
}

// claudeLogin is what Claude Code keeps under claudeAiOauth; ExpiresAt is in
// milliseconds since 1970.
type claudeLogin struct {
	AccessToken           string   `json:"accessToken"`
	RefreshToken          string   `json:"refreshToken"`
	ExpiresAt             int64    `json:"expiresAt"`
	RefreshTokenExpiresAt int64    `json:"refreshTokenExpiresAt,omitempty"`
	Scopes                []string `json:"scopes,omitempty"`
	SubscriptionType      *string  `json:"subscriptionType,omitempty"`
	RateLimitTier         *string  `json:"rateLimitTier,omitempty"`
}

func judgeClaude(have, offered []byte, now time.Time) (verdict, error) {
	old, err := object(have)
	if err != nil {
		return verdict{}, err
	}
	fresh, err := object(offered)
	if err != nil {
		return verdict{}, err
	}
	var before, after claudeLogin
	if json.Unmarshal(old["claudeAiOauth"], &before) != nil {
		return verdict{}, refused("the host's file holds no such login")
	}
	if json.Unmarshal(fresh["claudeAiOauth"], &after) != nil || after.RefreshToken == "" || after.AccessToken == "" {
		return verdict{}, refused("it is incomplete")
	}
	far := now.Add(maxAhead).UnixMilli()
	if after.ExpiresAt > far || after.RefreshTokenExpiresAt > far {
		return verdict{}, refused("it expires too far ahead")
	}
	if before.ExpiresAt <= far && after.ExpiresAt <= before.ExpiresAt {
		return verdict{}, ErrOlder
	}
	content, err := with(old, "claudeAiOauth", after)
	return verdict{content: content}, err
}

// codexTokens is what Codex keeps under tokens.
type codexTokens struct {
	IDToken      string `json:"id_token"`
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	AccountID    string `json:"account_id"`
}

func judgeCodex(have, offered []byte, capturedAt time.Time) (verdict, error) {
	old, err := object(have)
	if err != nil {
		return verdict{}, err
	}
	fresh, err := object(offered)
	if err != nil {
		return verdict{}, err
	}
	var before, after codexTokens
	if json.Unmarshal(old["tokens"], &before) != nil || before.AccountID == "" {
		return verdict{}, refused("the host's file holds no such login")
	}
	if json.Unmarshal(fresh["tokens"], &after) != nil || after.AccessToken == "" || after.RefreshToken == "" {
		return verdict{}, refused("it is incomplete")
	}
	for _, account := range []string{after.AccountID, accountIn(after.AccessToken), accountIn(after.IDToken)} {
		if account != "" && account != before.AccountID {
			return verdict{}, refused("it is another account's")
		}
	}
	if after.AccountID == "" {
		return verdict{}, refused("it names no account")
	}
	if after == before {
		return verdict{}, ErrOlder
	}
	content, err := with(old, "tokens", after)
	if err != nil {
		return verdict{}, err
	}
	if old, err = object(content); err == nil { // the host's own word: when it was renewed
		content, err = with(old, "last_refresh", capturedAt.UTC())
	}
	return verdict{content: content, account: before.AccountID}, err
}

// accountIn is the account that a token of OpenAI names in its claims; the
// service refuses one whose claims were changed.
func accountIn(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Auth struct {
			Account string `json:"chatgpt_account_id"`
		} `json:"https://api.openai.com/auth"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Auth.Account
}

// openCodeEntry is a provider's login in OpenCode's file; Expires is in
// milliseconds since 1970.
type openCodeEntry struct {
	Type      string `json:"type"`
	Key       string `json:"key,omitempty"`
	Refresh   string `json:"refresh,omitempty"`
	Access    string `json:"access,omitempty"`
	Expires   int64  `json:"expires,omitempty"`
	AccountID string `json:"accountId,omitempty"`
}

func judgeOpenCode(have, offered []byte, now time.Time) (verdict, error) {
	old, err := object(have)
	if err != nil {
		return verdict{}, err
	}
	fresh, err := object(offered)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{content: have}
	changed := false
	for id, raw := range fresh {
		var before, after openCodeEntry
		known := json.Unmarshal(old[id], &before) == nil && json.Unmarshal(raw, &after) == nil
		switch {
		case !known || !before.replaceable(id, after, now):
			v.dropped++
		case after != before:
			if old[id], err = json.Marshal(after); err != nil {
				return verdict{}, err
			}
			changed = true
		}
	}
	if changed {
		v.content, err = json.Marshal(old)
		return v, err
	}
	if v.dropped > 0 {
		return v, refused("no entry of it is one that the host's file holds")
	}
	return v, ErrOlder
}

// replaceable tells whether after may take the place of an entry.
func (e openCodeEntry) replaceable(id string, after openCodeEntry, now time.Time) bool {
	if strings.ContainsAny(id, ":/") || after.Type != e.Type || after.AccountID != e.AccountID ||
		after.Expires > now.Add(maxAhead).UnixMilli() {
		return false
	}
	switch e.Type {
	case "api":
		return after.Key != "" && after.Refresh == "" && after.Access == ""
	case "oauth":
		return after.Refresh != "" && after.Key == ""
	}
	return false // "wellknown" lets a server name a program to run
}

// object reads a JSON object that names nothing twice.
func object(text []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := wire.Decode(text, &m); err != nil || m == nil {
		return nil, refused("it is no JSON object")
	}
	return m, nil
}

// with is the object with one of its values replaced.
func with(m map[string]json.RawMessage, key string, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, refused("it can't be written")
	}
	m[key] = raw
	return json.Marshal(m)
}
