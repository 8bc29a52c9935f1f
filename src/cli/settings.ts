// monolith settings: docs/settings.md, generated from the declarations.

import { settingsMarkdown } from '../config.js';

export function settings(): Promise<number> {
  process.stdout.write(settingsMarkdown());
  return Promise.resolve(0);
}
