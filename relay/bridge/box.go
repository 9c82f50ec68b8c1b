package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// holdMost is how long a poll is held when nothing happens, so that an idle
	// box costs three requests a minute.
	holdMost = 20 * time.Second
	// maxAgents bounds the logins that are held, one per agent.
	maxAgents = 8
	// maxLogin bounds one payload of credentials-updated: 256 KiB in base64, and
	// what stands around it.
	maxLogin = 384 << 10
	// polledBytes bounds the payloads of events in one answer to a poll.
	polledBytes = 2 << 20
)

// Errors of events that the box's relay does not take.
var (
	errEvent   = errors.New("type is missing, too long, or the relay's own")
	errPayload = errors.New("the payload does not have the form of its type")
)

// BoxConfig says who a Box is.
type BoxConfig struct {
	BoxID string
	// BoxToken is the token of the box's own tools, BridgeToken the host's. They
	// must differ and have 32 bytes or more.
	BoxToken, BridgeToken string
}

// Box is the half of the bridge in the box. Its routes are in Handler.
type Box struct {
	boxID    string
	own      [sha256.Size]byte
	host     [sha256.Size]byte
	instance string
	changed  signal
	queue    queue

	mu            sync.Mutex
	events        []wire.Event
	last          int64
	status        json.RawMessage
	statusVersion int64
	logins        map[string]login
	loginVersion  int64
	polls         int64 // the newest poll is the one that is served
}

// login is the newest one of an agent.
type login struct {
	payload json.RawMessage
	version int64
}

// NewBox makes the half in the box. It refuses tokens that guard nothing.
func NewBox(cfg BoxConfig) (*Box, error) {
	switch {
	case cfg.BoxID == "":
		return nil, errors.New("serve the bridge: the box has no id")
	case len(cfg.BoxToken) < 32 || len(cfg.BridgeToken) < 32:
		return nil, errors.New("serve the bridge: a token is missing or has fewer than 32 bytes")
	case cfg.BoxToken == cfg.BridgeToken:
		return nil, errors.New("serve the bridge: the box's token and the bridge's are the same")
	}
	b := &Box{
		boxID: cfg.BoxID, own: sha256.Sum256([]byte(cfg.BoxToken)), host: sha256.Sum256([]byte(cfg.BridgeToken)),
		instance: rand.Text(), logins: map[string]login{},
	}
	b.queue.changed = &b.changed
	return b, nil
}

// matches compares a token as presented with the hash of the right one.
func matches(token string, hash [sha256.Size]byte) bool {
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], hash[:]) == 1
}

// post takes an event of the box's tools; logins and statuses go where each has
// its place. id is 0 for those. Errors: errEvent, errPayload, store.ErrTooLarge.
func (b *Box) post(e wire.PostEvent) (id int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Type == "" || len(e.Type) > 100:
		return 0, errEvent
	case e.Type == "credentials-updated":
		err = b.keepLogin(e.Payload)
	case e.Type == "box-status":
		err = b.keepStatus(e.Payload)
	case len(e.TS)+len(e.Payload) > store.MaxEventBytes:
		return 0, store.ErrTooLarge
	default:
		b.last++
		id = b.last
		b.events = append(b.events, wire.Event{Seq: id, BoxID: b.boxID, Type: e.Type, TS: e.TS, Payload: e.Payload, ReceivedAt: time.Now().UTC()})
		if over := len(b.events) - store.RingSize; over > 0 {
			b.events = append(b.events[:0:0], b.events[over:]...)
		}
	}
	if err == nil {
		b.changed.fire()
	}
	return id, err
}

var agentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`) })

func (b *Box) keepLogin(payload json.RawMessage) error {
	var head struct {
		Agent string `json:"agent"`
	}
	if json.Unmarshal(payload, &head) != nil || !agentName().MatchString(head.Agent) {
		return errPayload
	}
	_, known := b.logins[head.Agent]
	if len(payload) > maxLogin || !known && len(b.logins) >= maxAgents {
		return store.ErrTooLarge
	}
	b.loginVersion++
	b.logins[head.Agent] = login{payload, b.loginVersion}
	return nil
}

func (b *Box) keepStatus(snapshot json.RawMessage) error {
	var head struct {
		Schema int    `json:"schema"`
		BoxID  string `json:"boxId"`
	}
	if json.Unmarshal(snapshot, &head) != nil || head.Schema != 1 || head.BoxID != b.boxID {
		return errPayload
	}
	if len(snapshot) > store.MaxStatusBytes {
		return store.ErrTooLarge
	}
	if string(snapshot) != string(b.status) {
		b.status = snapshot
		b.statusVersion++
	}
	return nil
}

// superseded tells a poll that a newer one has come.
func (b *Box) superseded(turn int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.polls != turn
}

// begin makes a poll the one that is served; an older one that is held ends.
func (b *Box) begin() (turn int64) {
	b.mu.Lock()
	b.polls++
	turn = b.polls
	b.mu.Unlock()
	b.changed.fire()
	return turn
}

// collect is what a host that has seen seen gets now. When that is nothing, next
// is when an action becomes due by time alone; zero means never.
func (b *Box) collect(seen Cursor) (p Poll, next time.Time) {
	p = Poll{Instance: b.instance, Events: []wire.Event{}, Cursor: seen.Events, Actions: []Action{}}
	if seen.Instance != "" && seen.Instance != b.instance {
		return p, time.Time{}
	}
	b.mu.Lock()
	size := 0
	for _, e := range b.events {
		if e.Seq <= seen.Events {
			continue
		}
		if size += len(e.Payload); size > polledBytes {
			break
		}
		p.Events, p.Cursor = append(p.Events, e), e.Seq
	}
	p.StatusVersion, p.CredentialsVersion = b.statusVersion, b.loginVersion
	if b.statusVersion > seen.Status {
		p.Status = b.status
	}
	for agent, l := range b.logins {
		if l.version > seen.Credentials {
			p.Credentials = append(p.Credentials, l.payload)
		} else { // the host has it
			delete(b.logins, agent)
		}
	}
	b.mu.Unlock()
	actions, cancelled, next := b.queue.take()
	if actions != nil {
		p.Actions = actions
	}
	p.Cancelled = cancelled
	return p, next
}

func (b *Box) health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Health{OK: true, Queued: b.queue.len(), Events: len(b.events)}
}
