#!/bin/sh
# Installs those of the packages listed in the file $1 that are missing. Where
# the base has them all, nothing here needs a network.
set -eu

missing=
while read -r package; do
	case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in
	ii*) ;;
	*) missing="$missing $package" ;;
	esac
done <"$1"
[ -n "$missing" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
apt-get update
# A build that is cut short is thrown away whole, so nothing has to be safe on
# the disk after each package.
# shellcheck disable=SC2086 # a list of words
apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-unsafe-io $missing
apt-get clean
rm -rf /var/lib/apt/lists/*
