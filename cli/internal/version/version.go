// Package version says which agentbox this is.
package version

import "runtime/debug"

// Or is the version that the build stamped, as in "v1.2.3", else the one that
// the module was installed at; "v0.0.0-dev" for a build from a work tree.
func Or(stamped string) string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "v0.0.0-dev"
}
