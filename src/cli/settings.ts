// monolith settings: generates docs/reference/settings.md, or with --short the table of the README, from the
// declarations of the settings.

import { didYouMean } from '../config/did-you-mean.js';
import { settingsMarkdown, settingsSummary } from '../config/help.js';
import { askedForHelp, UsageError } from './output.js';

const HELP = `
Usage: monolith settings [--short]

Prints all settings as a Markdown page; --short: the table of the most common ones. See also
"monolith serve --help" and "monolith serve --help --all".
`;

export function settings(argv: readonly string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return Promise.resolve(0);
  const unknown = argv.find((one) => one !== '--short');
  if (unknown !== undefined) {
    throw new UsageError(
      unknown.startsWith('-')
        ? `${unknown}: no such flag.${didYouMean(unknown, ['--short', '--help'])}`
        : `unexpected argument "${unknown}"`,
    );
  }
  process.stdout.write(argv.includes('--short') ? settingsSummary() : settingsMarkdown());
  return Promise.resolve(0);
}
