#!/bin/sh
# Turns a Debian or Ubuntu base that has its packages into a box: certificates,
# the user vscode and the folders that it owns.
set -eu

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
