package server

import (
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/wake"
)

// Bounds on notices. One that nobody clears goes by itself, so that a command
// that died leaves none behind.
const (
	noticeTTL    = 11 * time.Minute
	maxNoticeTTL = 24 * time.Hour
	maxNotice    = 2000 // bytes of a message
	maxNotices   = 20   // of one box
)

// noticePrefix begins the ids of notices; those of approvals begin otherwise.
const noticePrefix = "n"

var noticeKind = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// notices are what the user's commands tell whoever watches a box, such as
// that it is frozen while a checkpoint is made. They live no longer than the
// relay. The zero value has none.
type notices struct {
	mu      sync.Mutex
	shown   []wire.Notice
	changed wake.Topics // of noticesTopic, also when one's time is over
}

const noticesTopic store.Topic = "notices"

// set shows a notice in place of one of the same box and kind; false where the
// box has too many.
func (n *notices) set(notice wire.Notice) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept, of := []wire.Notice{}, 0
	for _, o := range n.shown {
		if !time.Now().Before(o.Until) || o.BoxID == notice.BoxID && o.Kind == notice.Kind {
			continue
		}
		kept = append(kept, o)
		if o.BoxID == notice.BoxID {
			of++
		}
	}
	if of >= maxNotices {
		return false
	}
	n.shown = append(kept, notice)
	n.changed.Wake(noticesTopic)
	time.AfterFunc(time.Until(notice.Until), func() { n.changed.Wake(noticesTopic) })
	return true
}

// clear takes away what matches.
func (n *notices) clear(match func(wire.Notice) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shown = slices.DeleteFunc(slices.Clone(n.shown), match)
	n.changed.Wake(noticesTopic)
}

// current lists the notices of a box, of all if it is empty.
func (n *notices) current(box string) (list []wire.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.shown {
		if time.Now().Before(o.Until) && (box == "" || o.BoxID == box) {
			list = append(list, o)
		}
	}
	return list
}

func (s *Server) postNotice(w http.ResponseWriter, r *http.Request) {
	var body wire.SetNotice
	if !readJSON(w, r, &body) {
		return
	}
	ttl := noticeTTL
	if body.TTL != 0 {
		ttl = time.Duration(min(body.TTL, maxNoticeTTL.Milliseconds())) * time.Millisecond
	}
	if !core.ValidBoxID(body.BoxID) || !noticeKind.MatchString(body.Kind) || body.Message == "" || len(body.Message) > maxNotice || ttl <= 0 {
		writeError(w, http.StatusBadRequest, "a notice has a boxId, a kind of lower-case letters, a message of at most 2000 bytes, and a ttlMs above 0 if any", "")
		return
	}
	if _, err := s.st.Box(r.Context(), body.BoxID); errors.Is(err, store.ErrNotFound) {
		writeError(w, http.StatusNotFound, "the relay does not know the box", "start it with: agentbox start")
		return
	} else if err != nil {
		s.internal(w, err)
		return
	}
	notice := wire.Notice{
		ID: noticePrefix + strings.ToLower(rand.Text()[:12]), BoxID: body.BoxID, Kind: body.Kind, Message: body.Message, Until: time.Now().Add(ttl).UTC(),
	}
	if !s.notices.set(notice) {
		writeError(w, http.StatusConflict, "the box has too many notices", "clear one first")
		return
	}
	writeJSON(w, http.StatusOK, wire.NoticeID{ID: notice.ID})
}

func (s *Server) postClearNotice(w http.ResponseWriter, r *http.Request) {
	var body wire.ClearNotice
	if !readJSON(w, r, &body) {
		return
	}
	if !core.ValidBoxID(body.BoxID) || body.ID == "" {
		writeError(w, http.StatusBadRequest, "boxId or id is missing", "")
		return
	}
	s.notices.clear(func(n wire.Notice) bool { return n.BoxID == body.BoxID && n.ID == body.ID })
	w.WriteHeader(http.StatusNoContent)
}
