#!/bin/sh
# Turns a Debian or Ubuntu base into a box: packages, certificates, the user
# vscode and the folders that it owns. The argument is the list of packages.
# Where the base has them all, nothing here needs a network.
set -eu

missing=
while read -r package; do
	case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in
	ii*) ;;
	*) missing="$missing $package" ;;
	esac
done <"$1"
if [ -n "$missing" ]; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update
	# shellcheck disable=SC2086 # a list of words
	apt-get install --yes --no-install-recommends $missing
	apt-get clean
	rm -rf /var/lib/apt/lists/*
fi

update-ca-certificates

# A box has no NET_RAW. A ping with that file capability can't even be
# executed there, while a plain one uses unprivileged ICMP sockets; a copy
# carries no capability.
ping=$(command -v ping)
cp "$ping" "$ping.plain"
chmod 0755 "$ping.plain"
mv "$ping.plain" "$ping"

# Some bases have a user of their own with this id.
holder=$(getent passwd 1000 | cut -d: -f1)
if [ -n "$holder" ] && [ "$holder" != vscode ]; then
	userdel --remove "$holder"
fi
if ! getent passwd vscode >/dev/null; then
	groupadd --gid 1000 vscode
	useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash vscode
fi
install -d -o vscode -g vscode \
	/workspace \
	/home/vscode/.local /home/vscode/.local/bin \
	/var/lib/agentbox /var/log/agentbox
