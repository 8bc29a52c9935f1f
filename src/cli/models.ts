// monolith models: what the current settings would serve, and what else is on disk, with the memory each would take. Reads
// no weights, and asks no hub.

import { loadConfig } from '../config/load.js';
import { showBytes } from '../config/kinds.js';
import { fitOf, FileFacts } from '../engine/file-facts.js';
import type { FileFact } from '../engine/file-facts.js';
import { Hub, withHubModels } from '../hub/hub.js';
import { availableMemory, totalMemory } from '../shared/machine-memory.js';
import { HUB_SCHEME } from '../hub/model-ref.js';
import { configuredModels, loadOptions } from '../service/engine-settings.js';
import { askedForHelp, noWords, ownFlags, table } from './output.js';

const HELP = `
Usage: monolith models [--json]

The models that "monolith serve" with the same settings would serve, highest tier first, then what else "monolith
pull" and its kin have left in the hub's cache. MEMORY is weights, keys and values and working memory as a load
would plan them; FITS says whether that is free now. Exits with 1 if a file that would be served cannot be; why
stands in its line.
`;

const FLAGS = { '--json': false };

interface Line extends FileFact { name: string; served: boolean; file: string; fits: ReturnType<typeof fitOf>; [other: string]: unknown }

export async function models(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config: asked, rest } = loadConfig({ argv }, FLAGS);
  const { values, words } = ownFlags(rest, FLAGS);
  noWords(words);
  const facts = new FileFacts(loadOptions(asked));
  const config = await withHubModels(asked, { fetches: false });
  const absent = config.model.filter(({ path }) => path.startsWith(HUB_SCHEME));
  const there = { ...config, model: config.model.filter((one) => !absent.includes(one)) };
  const memory = { total: totalMemory(), available: availableMemory() };
  const line = (name: string, served: boolean, file: string, more: object = {}): Line => {
    const fact = facts.of(file);
    return { ...more, name, served, file, ...fact, fits: fitOf(fact, memory) };
  };
  const served = absent.length > 0 && there.model.length === 0 ? [] : configuredModels(there).map((model) => line(model.id, true, model.file, model));
  const missing = absent.map(({ name, path }): Line => ({ id: name, name, served: true, file: path, problem: `not here yet: monolith pull ${path.slice(HUB_SCHEME.length)}`, bytes: null, architecture: null, parameters: null, quantization: null, memory: null, fits: null }));
  const inUse = new Set(served.map(({ file }) => file));
  const others = new Hub(config).onDisk().filter(({ path }) => !inUse.has(path)).map(({ ref, path, isOld }) => line(isOld ? `${ref} (old)` : ref, false, path));
  const all = [...served, ...missing, ...others];
  if (values.has('--json')) process.stdout.write(`${JSON.stringify(all)}\n`);
  else process.stdout.write(told(served.concat(missing), others));
  return [...served, ...missing].some(({ problem }) => problem !== null) ? 1 : 0;
}

const HEAD = ['NAME', 'SIZE', 'ARCHITECTURE', 'MEMORY', 'FITS', 'FILE'];
const FITS: Record<string, string> = { yes: 'yes', later: 'not now', no: 'no' };

function row({ name, file, problem, architecture, quantization, memory, fits, bytes }: Line): string[] {
  const kind = [architecture, quantization].filter((one) => one !== null).join(' ');
  return [name, bytes === null ? '' : showBytes(bytes), kind, memory === null ? '' : showBytes(memory), FITS[fits ?? ''] ?? '', problem === null ? file : `cannot be served: ${problem}`];
}

function told(served: readonly Line[], others: readonly Line[]): string {
  const small = served.some((one) => one['demonstration'] === true) ? '\nThese are small demonstrations, trained here. A real one: monolith pull OWNER/REPO\n' : '';
  const rest = others.length === 0 ? '' : `\nOn disk, and served with --model NAME=hf:...:\n\n${table([HEAD, ...others.map(row)])}`;
  return `${table([HEAD, ...served.map(row)])}${small}${rest}`;
}
