module github.com/madarco/agentbox/relay

go 1.26.0

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/go-git/go-git/v5 v5.19.3
	github.com/gofrs/flock v0.13.2
	github.com/google/go-cmp v0.7.0
	github.com/madarco/agentbox/core v0.1.0
	golang.org/x/sys v0.50.0
	golang.org/x/text v0.41.0
	modernc.org/sqlite v1.62.0
	pgregory.net/rapid v1.3.0
)
