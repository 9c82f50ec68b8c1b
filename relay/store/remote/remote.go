package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// callTime bounds one call.
	callTime  = 10 * time.Second
	maxAnswer = 64 << 10
)

// Config says where the plane is.
type Config struct {
	// URL is the plane's address: https, or http on this machine.
	URL string
	// Token is the laptop's bearer.
	Token string
	// Transport is one of its own, without a proxy, if nil.
	Transport http.RoundTripper
}

// Store calls a plane. It is safe for concurrent use.
type Store struct {
	base, token string
	transport   http.RoundTripper
}

// New makes a store; it calls nobody yet.
func New(cfg Config) (*Store, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("federate: the plane's address is no plain URL")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || ip == nil || !ip.IsLoopback()) {
		return nil, errors.New("federate: the plane's address is neither https nor on this machine")
	}
	if cfg.Token == "" || strings.ContainsAny(cfg.Token, "\r\n\x00") {
		return nil, errors.New("federate: the plane's token is missing, or holds a line break")
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: callTime}).DialContext,
			TLSHandshakeTimeout: callTime, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
	}
	return &Store{strings.TrimSuffix(cfg.URL, "/"), cfg.Token, cfg.Transport}, nil
}

// RegisterBox tells the plane of a box, again if it knew it.
func (s *Store) RegisterBox(ctx context.Context, box core.Box) error {
	b := wire.FederatedBox{Name: box.Name, Provider: box.Provider, CreatedAt: box.CreatedAt, ProjectIndex: box.ProjectIndex}
	for _, r := range box.Repos {
		b.Repos = append(b.Repos, wire.FederatedRepo{Key: r.Key, Kind: r.Kind, BoxPath: r.BoxPath, Branch: r.Branch, Sanctioned: r.Sanctioned, Remote: r.Remote, RemoteURL: r.RemoteURL})
	}
	return s.call(ctx, http.MethodPut, "/boxes/"+url.PathEscape(box.ID), b, nil)
}

// ForgetBox removes a box; false when the plane had none.
func (s *Store) ForgetBox(ctx context.Context, id string) (bool, error) {
	err := s.call(ctx, http.MethodDelete, "/boxes/"+url.PathEscape(id), nil, nil)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// SetStatus replaces the status of a box. Errors as of store.BoxStore.
func (s *Store) SetStatus(ctx context.Context, boxID string, snapshot json.RawMessage) error {
	if err := store.CheckStatus(snapshot); err != nil {
		return err
	}
	return s.call(ctx, http.MethodPut, "/boxes/"+url.PathEscape(boxID)+"/status", wire.FederatedStatus{Snapshot: snapshot}, nil)
}

// AppendEvents adds events to a box and gives the plane's number of the last one.
// after is the number that an earlier call gave, nil at first: what is there
// after it already is not added again.
func (s *Store) AppendEvents(ctx context.Context, boxID string, after *int64, events []wire.PostEvent) (last int64, err error) {
	for _, e := range events {
		if _, err := store.CheckEvent(e); err != nil {
			return 0, err
		}
	}
	var out wire.FederatedLast
	err = s.call(ctx, http.MethodPost, "/boxes/"+url.PathEscape(boxID)+"/events", wire.FederatedEvents{After: after, Events: events}, &out)
	return out.Last, err
}

// SetPending replaces what the plane shows of the laptop's open questions.
func (s *Store) SetPending(ctx context.Context, all []store.Approval) error {
	facts := []wire.PendingFacts{}
	for _, a := range all {
		facts = append(facts, wire.PendingFacts{ID: a.ID, BoxID: a.BoxID, BoxName: a.BoxName, Method: a.Method, Message: a.Message, CreatedAt: a.CreatedAt, Deadline: a.Deadline})
	}
	return s.call(ctx, http.MethodPut, "/pending", wire.FederatedPending{Pending: facts}, nil)
}

// call sends one request and decodes the answer into dst, unless that is nil. It
// is no http.Client, which would follow redirects.
func (s *Store) call(ctx context.Context, method, path string, body, dst any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a push to the plane: %w", err)
	}
	if body == nil {
		raw = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+"/federation"+path, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("push to the plane: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("push to the plane: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the plane's answer: %w", err)
	}
	switch res.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		if dst == nil {
			return nil
		}
		return wire.Decode(answer, dst)
	case http.StatusBadRequest:
		err = wire.ErrBadJSON
	case http.StatusNotFound:
		err = store.ErrNotFound
	case http.StatusConflict:
		err = store.ErrExists
	case http.StatusRequestEntityTooLarge:
		err = store.ErrTooLarge
	default:
		return fmt.Errorf("%s %s: the plane answered status %d: %s", method, path, res.StatusCode, core.Untrusted(answer).Quote())
	}
	return fmt.Errorf("%s %s: the plane says: %w", method, path, err)
}
