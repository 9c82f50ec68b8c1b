module github.com/madarco/agentbox/ctl

go 1.26.0

require (
	github.com/fsnotify/fsnotify v1.10.1
	github.com/madarco/agentbox/core v0.1.0
)

require (
	github.com/gofrs/flock v0.13.2 // indirect
	golang.org/x/text v0.41.0 // indirect
)

require (
	github.com/creack/pty v1.1.24
	github.com/google/go-cmp v0.7.0
	github.com/madarco/agentbox/integrations v0.1.0
	github.com/madarco/agentbox/relay v0.1.0
	golang.org/x/sys v0.50.0
)
