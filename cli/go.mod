module github.com/madarco/agentbox/cli

go 1.26.0

require (
	github.com/creack/pty v1.1.24
	github.com/goccy/go-yaml v1.19.2
	github.com/google/go-cmp v0.7.0
	github.com/madarco/agentbox/core v0.1.0
	github.com/madarco/agentbox/docs v0.1.0
	github.com/madarco/agentbox/relay v0.1.0
	github.com/madarco/agentbox/sandbox-core v0.1.0
	github.com/madarco/agentbox/sandbox-docker v0.1.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/urfave/cli/v3 v3.14.0
	golang.org/x/sync v0.25.0
	golang.org/x/term v0.48.0
)
