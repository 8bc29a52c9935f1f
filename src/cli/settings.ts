// monolith settings: prints docs/reference/settings.md or, with --short, a table of the common settings.

import { settingsMarkdown, settingsSummary } from '../config/help.js';
import { flagsOf, noWords, readArguments } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith settings [--short]

Prints all settings as a Markdown page. --short prints a table of the common settings only. See also
"monolith serve --help" and "monolith serve --help --all".

Examples:
  monolith settings --short
  monolith settings > settings.md
`;

export const FLAGS: OwnFlags = { '--short': 'switch' };

export function settings(argv: readonly string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return Promise.resolve(0);
  const { flags, words } = readArguments(argv, flagsOf(FLAGS));
  noWords(words);
  process.stdout.write(flags.length > 0 ? settingsSummary() : settingsMarkdown());
  return Promise.resolve(0);
}
