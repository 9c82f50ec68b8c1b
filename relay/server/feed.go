package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// feed reads events in order, of one box or of all.
type feed struct {
	topic store.Topic
	// read gives what has come since the last read, and where the next one
	// goes on, in the form of the request's since.
	read func(context.Context) (events []wire.Event, next string, err error)
}

func (s *Server) feed(r *http.Request) (*feed, error) {
	box := r.URL.Query().Get("box")
	if box == "" {
		cursor := store.Cursor(r.URL.Query().Get("since"))
		return &feed{store.FeedTopic, func(ctx context.Context) ([]wire.Event, string, error) {
			events, next, err := s.st.Feed(ctx, cursor, maxEvents)
			if err == nil {
				cursor = next
			}
			return events, string(cursor), err
		}}, nil
	}
	since, err := number(r, "since", 0)
	if err != nil {
		return nil, err
	}
	return &feed{store.EventsTopic(box), func(ctx context.Context) ([]wire.Event, string, error) {
		events, err := s.st.Events(ctx, box, since, maxEvents)
		if n := len(events); n > 0 {
			since = events[n-1].Seq
		}
		return events, strconv.FormatInt(since, 10), err
	}}, nil
}
