#!/bin/sh
# Fetches Node.js and npm as package-lock.json has them into the prefix $1.
set -eu

npm ci --ignore-scripts --no-audit --no-fund --cache="$1/npm-cache"
mkdir -p "$1/bin" "$1/lib/node_modules"
mv node_modules/node-linux-*/bin/node "$1/bin/node"
chmod 0755 "$1/bin/node"
mv node_modules/npm "$1/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$1/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$1/bin/npx"
rm -rf node_modules "$1/npm-cache"
