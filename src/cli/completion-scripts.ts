// The completion scripts of bash, zsh and fish. Each is static: a shell does not start Monolith to complete a word.

import type { CompletedFlag, CompletionTable } from './completion-table.js';

const names = (flags: readonly CompletedFlag[]): string => flags.map(({ name }) => name).join(' ');

/** Every flag of a command, by name, including flags of individual subcommands. */
function allFlags({ commands, settings }: CompletionTable): CompletedFlag[] {
  const own = commands.flatMap(({ flags, actionFlags }) => [...flags, ...Object.values(actionFlags).flat()]);
  // The command's own flags come first. If a setting has a flag of the same name, that flag replaces the command's own,
  // because it has a description.
  return [...new Map([...own, ...settings].map((flag) => [flag.name, flag])).values()];
}

/**
 * Returns the lines of a `case` statement on the flag that precedes the word. They offer the flag's values or, if it
 * has no fixed ones, files. The syntax is the same in bash and zsh.
 */
function valueCases(table: CompletionTable, offer: (values: string) => string, files: string): string {
  const flags = allFlags(table).filter(({ takesValue }) => takesValue);
  const listed = flags.filter(({ values }) => values.length > 0);
  const others = flags.filter(({ values }) => values.length === 0);
  return [
    ...listed.map(({ name, values }) => `    ${name}) ${offer(values.join(' '))}; return ;;`),
    `    ${others.map(({ name }) => name).join('|')}) ${files}; return ;;`,
  ].join('\n');
}

/**
 * Returns the lines of a `case` statement on COMMAND or COMMAND/ACTION. They set variables. The syntax is the same in
 * bash and zsh.
 */
function commandCases({ commands }: CompletionTable): string {
  return commands
    .flatMap(({ name, actions, flags, actionFlags, words, takesFiles, takesSettings }) => [
      `    ${name}) actions='${actions.join(' ')}' flags='${names(flags)}' words='${words.join(' ')}' files=${takesFiles ? 1 : 0} settings=${takesSettings ? 1 : 0} ;;`,
      ...Object.entries(actionFlags).map(
        ([action, own]) =>
          `    ${name}/${action}) flags='${names(own)}' words='' files=0 settings=${takesSettings ? 1 : 0} ;;`,
      ),
    ])
    .join('\n');
}

export function bashScript(table: CompletionTable): string {
  return `# Completion of monolith for bash. To use it: source <(monolith completion bash)
_monolith() {
  COMPREPLY=()
  local cur="\${COMP_WORDS[COMP_CWORD]}" flag="\${COMP_WORDS[COMP_CWORD-1]}" command=serve action='' i
  local actions='' flags='' words='' files=0 settings=0
  # bash splits --flag=value into three words.
  if [[ $cur == = ]]; then cur=''; elif [[ $flag == = ]]; then flag="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  case $flag in
${valueCases(table, (values) => `COMPREPLY=($(compgen -W '${values}' -- "$cur"))`, ':')}
  esac
  if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
    COMPREPLY=($(compgen -W '${table.commands.map(({ name }) => name).join(' ')}' -- "$cur"))
    return
  fi
  [[ \${COMP_WORDS[1]} == -* ]] || command="\${COMP_WORDS[1]}"
  ((COMP_CWORD > 2)) && action="\${COMP_WORDS[2]}"
  for i in "$command" "$command/$action"; do
    case $i in
${commandCases(table)}
    esac
  done
  if [[ $cur == -* ]]; then
    ((settings)) && flags="$flags ${names(table.settings)}"
    COMPREPLY=($(compgen -W "$flags --help" -- "$cur"))
    return
  fi
  ((COMP_CWORD == 2)) && words="$actions $words"
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if ((files)); then
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -f -- "$cur"))
    compopt -o filenames 2>/dev/null
  fi
}
complete -o default -F _monolith monolith
`;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function zshScript(table: CompletionTable): string {
  const described = table.commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`).join('\n');
  return `#compdef monolith
# Completion of monolith for zsh. To use it: source <(monolith completion zsh)
_monolith() {
  local cur="\${words[CURRENT]}" flag="\${words[CURRENT-1]}" command=serve action='' i
  local -a known=("\${(@)words}")
  local actions='' flags='' words='' files=0 settings=0
  case $flag in
${valueCases(table, (values) => `compadd -- ${values}`, '_files')}
  esac
  if ((CURRENT == 2)) && [[ $cur != -* ]]; then
    local -a commands=(
${described}
    )
    _describe -t commands 'command' commands
    return
  fi
  [[ \${known[2]} == -* ]] || command="\${known[2]}"
  ((CURRENT > 3)) && action="\${known[3]}"
  for i in "$command" "$command/$action"; do
    case $i in
${commandCases(table)}
    esac
  done
  if [[ $cur == -* ]]; then
    ((settings)) && flags="$flags ${names(table.settings)}"
    compadd -- \${=flags} --help
    return
  fi
  ((CURRENT == 3)) && words="$actions $words"
  [[ -n \${words// /} ]] && compadd -- \${=words}
  ((files)) && _files
  return 0
}
if [[ \${funcstack[1]} == _monolith ]]; then _monolith "$@"; elif (( $+functions[compdef] )); then compdef _monolith monolith; fi
`;
}

const fishQuoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function fishFlag({ name, takesValue, values, help }: CompletedFlag, when: string): string {
  const takes = !takesValue ? '' : values.length > 0 ? ` -x -a '${values.join(' ')}'` : ' -r -F';
  return `complete -c monolith -n '${when}' ${name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`}${takes}${help === '' ? '' : ` -d ${fishQuoted(help)}`}`;
}

export function fishScript({ commands, settings }: CompletionTable): string {
  const takers = commands.filter(({ takesSettings }) => takesSettings).map(({ name }) => name);
  const lines = [
    ...commands.map(
      ({ name, summary }) =>
        `complete -c monolith -f -n '__monolith_at 1' -a ${name} -d ${fishQuoted(summary.replaceAll('\n', ' '))}`,
    ),
    ...commands.flatMap(({ name, actions, flags, actionFlags, words, takesFiles }) => [
      ...(actions.length === 0
        ? []
        : [`complete -c monolith -f -n '__monolith_in ${name}; and __monolith_at 2' -a '${actions.join(' ')}'`]),
      ...(words.length === 0 ? [] : [`complete -c monolith -f -n '__monolith_in ${name}' -a '${words.join(' ')}'`]),
      ...(takesFiles ? [`complete -c monolith -F -n '__monolith_in ${name}'`] : []),
      ...flags.map((flag) => fishFlag(flag, `__monolith_in ${name}`)),
      ...Object.entries(actionFlags).flatMap(([action, own]) =>
        own.map((flag) => fishFlag(flag, `__monolith_in ${name}; and __monolith_action ${action}`)),
      ),
    ]),
    ...settings.map((flag) => fishFlag(flag, `__monolith_in ${takers.join(' ')}`)),
    "complete -c monolith -l help -s h -d 'Show the help'",
  ];
  return `# Completion of monolith for fish. To use it: monolith completion fish | source
function __monolith_words
  commandline -opc
end
function __monolith_in
  set -l words (__monolith_words)
  if test (count $words) -lt 2; or string match -q -- '-*' $words[2]
    contains -- serve $argv
  else
    contains -- $words[2] $argv
  end
end
function __monolith_at
  test (count (__monolith_words)) -eq $argv[1]
end
function __monolith_action
  set -l words (__monolith_words)
  test (count $words) -ge 3; and test "$words[3]" = $argv[1]
end
complete -c monolith -f
${lines.join('\n')}
`;
}
