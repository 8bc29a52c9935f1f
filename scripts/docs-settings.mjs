// npm run docs:settings: generates docs/reference/settings.md from the declared settings.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { settingsMarkdown } from '../dist/config/help.js';
import { root } from './setup.mjs';

writeFileSync(join(root, 'docs', 'reference', 'settings.md'), settingsMarkdown());
