// npm run docs:settings: generates docs/reference/settings.md, and the short table between the two markers in the
// README, from the declared settings.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { settingsMarkdown, settingsSummary } from '../dist/config/help.js';
import { root } from './setup.mjs';

writeFileSync(join(root, 'docs', 'reference', 'settings.md'), settingsMarkdown());
const readme = join(root, 'README.md');
const text = readFileSync(readme, 'utf8');
writeFileSync(
  readme,
  text.replace(/(<!-- settings -->\n)[^]*?(<!-- \/settings -->)/, (_, start, end) => start + settingsSummary() + end),
);
