#!/bin/sh
# Fetches the coding agents as package-lock.json has them into the prefix $1.
# Each is one native program in a package for its platform. The packages that
# people install choose that program when they run, with Node.js; here the
# choice is made.
set -eu

# The OpenCode that is taken runs on every processor of the architecture.
case $(uname -m) in
x86_64) cpu=x64 opencode=x64-baseline ;;
aarch64) cpu=arm64 opencode=arm64 ;;
*) echo "no agents for $(uname -m)" >&2 && exit 1 ;;
esac

npm ci --ignore-scripts --no-audit --no-fund --cache="$1/npm-cache"
mkdir -p "$1/bin" "$1/lib/agents"
mv "node_modules/@anthropic-ai/claude-code-linux-$cpu" "$1/lib/agents/claude"
mv "node_modules/@openai/codex-linux-$cpu" "$1/lib/agents/codex"
mv "node_modules/opencode-linux-$opencode" "$1/lib/agents/opencode"
ln -s ../lib/agents/claude/claude "$1/bin/claude"
ln -s "../lib/agents/codex/vendor/$(uname -m)-unknown-linux-musl/bin/codex" "$1/bin/codex"
ln -s ../lib/agents/opencode/bin/opencode "$1/bin/opencode"
rm -rf node_modules "$1/npm-cache"
