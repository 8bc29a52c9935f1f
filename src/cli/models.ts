// monolith models: what the current settings would serve, and whether the files are whole. Reads no weights.

import { loadConfig } from '../config/load.js';
import type { Config } from '../config/settings.js';
import { showBytes } from '../config/kinds.js';
import { modelBytes } from '../engine/catalog.js';
import { loadAddon } from '../engine/load-addon.js';
import { configuredModels, loadOptions } from '../service/engine-settings.js';
import { askedForHelp, noWords, ownFlags, table } from './output.js';

const HELP = `
Usage: monolith models [--json]

The models that "monolith serve" with the same settings would serve, highest tier first. Exits with 1 if one
of their files cannot be served; why stands in its line.
`;

const FLAGS = { '--json': false };

export async function models(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, rest } = loadConfig({ argv }, FLAGS);
  const { values, words } = ownFlags(rest, FLAGS);
  noWords(words);
  const problemOf = fileProblems(config);
  const list = configuredModels(config).map((model) => ({ ...model, problem: problemOf(model.file) }));
  if (values.has('--json')) {
    process.stdout.write(`${JSON.stringify(list)}\n`);
  } else {
    process.stdout.write(table([
      ['NAME', 'SIZE', 'CONTEXT', 'MAX OUTPUT', 'FILE'],
      ...list.map((model) => [
        model.id, showBytes(modelBytes(model.file) ?? 0), String(model.context_window ?? 'as the file'),
        String(model.max_output_tokens ?? 'as the context'), model.problem === null ? model.file : `cannot be served: ${model.problem}`,
      ]),
    ]));
  }
  return list.some(({ problem }) => problem !== null) ? 1 : 0;
}

/** What is wrong with a file; null: nothing that can be told without reading its weights. Each file is looked at once. */
function fileProblems(config: Config): (file: string) => string | null {
  const known = new Map<string, string | null>();
  const look = (file: string): string | null => {
    try {
      return loadAddon().inspect(file, loadOptions(config)).reason;
    } catch (error) {
      return (error as Error).message;
    }
  };
  return (file) => {
    if (!known.has(file)) known.set(file, look(file));
    return known.get(file) ?? null;
  };
}
