package wire

import "time"

// SetNotice is the body of POST /admin/notices/set: what whoever watches the box
// should know until it is cleared or its time is up. One of the same box and kind is replaced.
type SetNotice struct {
	BoxID   string `json:"boxId"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// TTL is how many milliseconds it stands unless it is cleared, eleven
	// minutes if 0, a day at most.
	TTL int64 `json:"ttlMs,omitempty"`
}

// NoticeID answers it.
type NoticeID struct {
	ID string `json:"id"`
}

// ClearNotice is the body of POST /admin/notices/clear.
type ClearNotice struct {
	BoxID string `json:"boxId"`
	ID    string `json:"id"`
}

// Notice is a notice that stands until it is cleared or its time is over.
type Notice struct {
	ID      string    `json:"id"`
	BoxID   string    `json:"boxId"`
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
	Until   time.Time `json:"until"`
}
