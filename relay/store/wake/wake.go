// Package wake tells waiters in this process that a topic has changed.
//
// Invariant: a channel got from Watch is closed by the first Wake of its topic
// after the call, and nothing is kept of a topic that nobody watches.
package wake

import (
	"sync"

	"github.com/madarco/agentbox/relay/store"
)

// Topics is a set of watched topics; the zero value is ready.
type Topics struct {
	mu      sync.Mutex
	watched map[store.Topic]*watch
}

// watch is shared by all watchers of a topic since its last change.
type watch struct {
	changed chan struct{}
	users   int
}

// Watch returns a channel that is closed at the topic's next change, and a
// function that gives the channel up; calling that twice is harmless.
func (t *Topics) Watch(topic store.Topic) (<-chan struct{}, func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watched[topic]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		if t.watched == nil {
			t.watched = map[store.Topic]*watch{}
		}
		t.watched[topic] = w
	}
	w.users++
	return w.changed, sync.OnceFunc(func() { t.leave(topic, w) })
}

func (t *Topics) leave(topic store.Topic, w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.users--
	if w.users == 0 && t.watched[topic] == w {
		delete(t.watched, topic)
	}
}

// Wake closes the channels of the topics.
func (t *Topics) Wake(topics ...store.Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range topics {
		if w := t.watched[topic]; w != nil {
			close(w.changed)
			delete(t.watched, topic)
		}
	}
}
