// monolith completion: prints a completion script for a shell.

import { flagsOf, noWords, readArguments, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { SHELLS } from './command.js';
import type { Command } from './command.js';
import { bashScript, fishScript, zshScript } from './completion-scripts.js';
import { completionTable } from './completion-table.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith completion bash|zsh|fish

Prints a script that completes commands, flags, values and recommended models in the shell. In a checkout, the script
also completes ./monolith.

Examples:
  source <(monolith completion bash)                               # this shell; add the line to ~/.bashrc to keep it
  source <(monolith completion zsh)                                # in ~/.zshrc, after compinit
  monolith completion fish > ~/.config/fish/completions/monolith.fish
`;

export const FLAGS: OwnFlags = {};

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };

export async function completion(argv: string[], commands: readonly Command[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const [shell, ...others] = readArguments(argv, flagsOf(FLAGS)).words;
  noWords(others);
  const known = SHELLS.find((one) => one === shell);
  if (known === undefined)
    throw new UsageError(`completion: expected ${SHELLS.join(', ')}${shell === undefined ? '' : `, not "${shell}"`}`);
  process.stdout.write(SCRIPTS[known](await completionTable(commands)));
  return 0;
}
