# Completion of agentbox for fish. In ~/.config/fish/config.fish: agentbox completion fish | source

function __agentbox_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (agentbox __complete $words[2..-1] 2>/dev/null)
    if string match -q ':files*' -- $lines[1]
        __fish_complete_path (commandline -ct)
    else if set -q lines[1]
        printf '%s\n' $lines
    end
end

complete -c agentbox -f -a '(__agentbox_complete)'
