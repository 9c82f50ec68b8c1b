# Sourced by the other scripts: where things lie, and how to say what happens.
# shellcheck shell=bash disable=SC2034 # its variables are used where it is sourced
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
# Caches and state lie outside the clone, so that a fresh clone is quick and a
# removed one leaves nothing running.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agentbox
state=${XDG_STATE_HOME:-$HOME/.local/state}
prefix=github.com/madarco/agentbox

say() { printf '%s\n' "$*" >&2; }

die() {
	say "${0##*/}: $*"
	exit 1
}

# as_root runs a command as root, through sudo where that is needed.
as_root() {
	if [[ $(id -u) == 0 ]]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "needs root for: $*; run it as root or install sudo"
	fi
}

# install_packages installs distribution packages, quietly unless it fails.
install_packages() {
	command -v apt-get >/dev/null || die "please install: $*"
	say "installing $*"
	local log
	log=$(mktemp)
	if ! { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		die "could not install $* (whole log: $log)"
	fi
	rm -f "$log"
}

# folders lists the folders of all modules of the workspace in $1.
folders() { (cd "$1" && go list -m -f '{{.Dir}}' | sed 's|.*/||'); }

# published lists "folder module version" of the modules that are published,
# dependencies first.
published() { (cd "$root" && go run ./tools/modproxy -versions); }

# scratch makes a folder that is removed when the script ends.
scratch() {
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/agentbox-${0##*/}.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
}

# alone makes go resolve siblings from a file proxy in $1 and nothing from the
# workspace. The module cache is thrown away, because a version that is not
# released changes with every commit; what was downloaded before is read from
# the user's own cache.
alone() {
	local downloads
	downloads=$(go env GOMODCACHE)/cache/download
	GOPROXY="file://$1,file://$downloads,$(go env GOPROXY)"
	GONOSUMDB="$prefix,$prefix/*"
	GOMODCACHE=$scratch/modcache
	export GOPROXY GONOSUMDB GOMODCACHE GOWORK=off GOTOOLCHAIN=local CGO_ENABLED=0
}

# process_start prints when a process started, in the kernel's ticks; with the
# pid it names one process for ever.
process_start() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# with_engine makes a Docker engine answer to the script, whose arguments it
# gets to start it again: a user who was just given the group that may reach
# the engine has it in new sessions only.
with_engine() {
	"$root/scripts/engine"
	docker info >/dev/null 2>&1 && return
	[[ -z ${AGENTBOX_IN_GROUP-} ]] || die "the Docker engine does not answer to $(id -un)"
	AGENTBOX_IN_GROUP=1 exec sg docker -c "$(printf '%q ' "$root/scripts/${0##*/}" "$@")"
}
