# A login shell of a person starts where the work is. (Its PATH gets
# ~/.local/bin from ~/.profile.)
case $- in
*i*) if [ "$PWD" = "$HOME" ] && [ -d /workspace ]; then cd /workspace || true; fi ;;
esac
