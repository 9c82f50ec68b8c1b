# /etc/profile replaces PATH in login shells.
case ":$PATH:" in
*":$HOME/.local/bin:"*) ;;
*) PATH="$HOME/.local/bin:$PATH" ;;
esac
export PATH

# A login shell of a person starts where the work is.
case $- in
*i*) if [ "$PWD" = "$HOME" ] && [ -d /workspace ]; then cd /workspace || true; fi ;;
esac
