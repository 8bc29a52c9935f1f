// monolith settings: docs/settings.md, or with --short the table of the README, from the declarations.

import { settingsMarkdown, settingsSummary } from '../config.js';

export function settings(argv: readonly string[]): Promise<number> {
  process.stdout.write(argv.includes('--short') ? settingsSummary() : settingsMarkdown());
  return Promise.resolve(0);
}
