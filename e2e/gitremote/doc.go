// Package gitremote is a real git remote over smart HTTP, for end-to-end tests
// and the quick start: git http-backend behind basic auth, with a log of what
// was asked and of what was pushed.
//
// The CGI front is this package's own, because the one in net/http/cgi refuses
// bodies without a length, which git sends as soon as a push is large.
//
// Invariants:
//   - A request without the right user and password reaches no repository.
//   - A push that has begun is carried to its end when the client goes away,
//     as a forge would; Close waits for it.
package gitremote
