package forge

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/madarco/agentbox/relay/store"
)

// tokenBytes is how long core.NewToken makes a token.
const tokenBytes = 64

var (
	hexRun    = regexp.MustCompile(`[0-9A-Fa-f]{64,}`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{64,}`)
)

// holdsToken tells whether a text holds a token that was put into a box, as it
// is, in hex or in base64. The host knows tokens by their hash alone, so all
// that could be one is hashed.
func (m *Method) holdsToken(ctx context.Context, text string) (bool, error) {
	var words []string
	for _, form := range plainForms(text) {
		for _, run := range hexRun.FindAllString(form, -1) {
			for i := range len(run) - tokenBytes + 1 {
				words = append(words, run[i:i+tokenBytes])
			}
		}
	}
	if len(words) == 0 {
		return false, nil
	}
	hashes, err := m.tokens(ctx)
	if err != nil {
		return false, fmt.Errorf("read what was put into boxes: %w", err)
	}
	for _, word := range words {
		if hashes[store.HashToken(word)] || hashes[store.HashToken(strings.ToLower(word))] {
			return true, nil
		}
	}
	return false, nil
}

// plainForms are a text and all that it could be an encoding of.
func plainForms(text string) []string {
	one := strings.Join(strings.Fields(text), "") // an encoded text may be wrapped
	forms := []string{text, one}
	for _, run := range hexRun.FindAllString(one, -1) {
		for skip := range 2 {
			part := run[skip:]
			if raw, err := hex.DecodeString(part[:len(part)&^1]); err == nil {
				forms = append(forms, string(raw))
			}
		}
	}
	one = strings.NewReplacer("-", "+", "_", "/").Replace(one)
	for _, run := range base64Run.FindAllString(one, -1) {
		for skip := range 4 {
			part := run[skip:]
			if raw, err := base64.RawStdEncoding.DecodeString(part[:len(part)&^3]); err == nil {
				forms = append(forms, string(raw))
			}
			if len(part)%4 > 1 { // what is left of the last group
				if raw, err := base64.RawStdEncoding.DecodeString(part); err == nil {
					forms = append(forms, string(raw))
				}
			}
		}
	}
	return forms
}
