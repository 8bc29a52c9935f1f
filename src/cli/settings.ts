// monolith settings: prints docs/reference/settings.md or, with --short, a table of the common settings.

import { settingsMarkdown, settingsSummary } from '../config/help.js';
import { noWords, readArguments } from '../config/arguments.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith settings [--short]

Prints all settings as a Markdown page. --short prints a table of the common settings only. See also
"monolith serve --help" and "monolith serve --help --all".
`;

export function settings(argv: readonly string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return Promise.resolve(0);
  const { flags, words } = readArguments(argv, new Map([['--short', { kind: 'switch' }]]));
  noWords(words);
  process.stdout.write(flags.length > 0 ? settingsSummary() : settingsMarkdown());
  return Promise.resolve(0);
}
