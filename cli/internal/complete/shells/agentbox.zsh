#compdef agentbox
# Completion of agentbox for zsh. In ~/.zshrc, behind compinit: eval "$(agentbox completion zsh)"

_agentbox() {
	local line word
	local -a described
	while IFS= read -r line; do
		word=${line%%$'\t'*}
		if [[ $word == :files ]]; then
			_files
			return
		fi
		described+=("${word//:/\\:}:${line#*$'\t'}")
	done < <(agentbox __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)
	_describe agentbox described
}

compdef _agentbox agentbox
