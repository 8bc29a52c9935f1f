// monolith models: what the current settings would serve. Reads no weights.

import { loadConfig } from '../config.js';
import { showBytes } from '../config-kinds.js';
import { modelBytes } from '../engine/catalog.js';
import { configuredModels } from '../service.js';
import { askedForHelp, noWords, ownFlags, table } from './output.js';

const HELP = `
Usage: monolith models [--json]

The models that "monolith serve" with the same settings would serve, highest tier first.
`;

const FLAGS = { '--json': false };

export async function models(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, rest } = loadConfig({ argv }, FLAGS);
  const { values, words } = ownFlags(rest, FLAGS);
  noWords(words);
  const list = configuredModels(config);
  if (values.has('--json')) {
    process.stdout.write(`${JSON.stringify(list)}\n`);
    return 0;
  }
  process.stdout.write(table([
    ['NAME', 'SIZE', 'CONTEXT', 'MAX OUTPUT', 'FILE'],
    ...list.map((model) => [
      model.id, showBytes(modelBytes(model.file) ?? 0), String(model.context_window ?? 'as the file'),
      String(model.max_output_tokens ?? 'as the context'), model.file,
    ]),
  ]));
  return 0;
}
