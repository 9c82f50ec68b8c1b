package daemon

import "github.com/madarco/agentbox/relay"

// methods are the host actions that a laptop's relay does, beside git's own.
func methods(Config) map[string]relay.Method {
	return map[string]relay.Method{}
}
