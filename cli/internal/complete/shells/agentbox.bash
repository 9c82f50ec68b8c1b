# Completion of agentbox for bash. In ~/.bashrc: eval "$(agentbox completion bash)"

_agentbox() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		line=${line%%$'\t'*}
		if [[ $line == :files ]]; then
			compopt -o filenames 2>/dev/null
			while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
			return
		fi
		COMPREPLY+=("$line")
	done < <(agentbox __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _agentbox agentbox
