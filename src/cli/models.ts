// monolith models: lists the models that would be served with the current settings, and other models on disk, with the
// memory that each would need. Reads no weights and does not contact the hub. `serve` only changes the data directory;
// a running server picks up the change.

import { commandName } from './command-name.js';
import { commandConfig } from './command-config.js';
import { showBytes } from '../config/kinds.js';
import { fitOf, FileFacts } from '../engine/file-facts.js';
import type { FileFact } from '../engine/file-facts.js';
import { Hub, withHubModels } from '../hub/hub.js';
import { availableMemory, totalMemory } from '../engine/machine-memory.js';
import { HUB_SCHEME } from '../hub/model-ref.js';
import type { Upstream } from '../config/upstream.js';
import type { AdapterSource, CatalogModel } from '../engine/catalog.js';
import { modelBytes } from '../engine/catalog.js';
import { configuredModels, loadOptions } from '../server/engine-settings.js';
import { noWords } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { RECOMMENDED } from '../shared/recommended-models.js';
import { askedForHelp, table } from './output.js';
import { recommendedText } from './recommended-text.js';
import { adapterPathProblem } from '../engine/adapters.js';
import { adaptersBeside, changeServed, servedBeside } from './served-models.js';

const HELP = `
Usage: monolith models [--json]
       monolith models --recommended [--json]
       monolith models serve NAME OWNER/REPO[:QUANTIZATION] [--idle-minutes N] [--display-name TEXT]
       monolith models unserve NAME

Without a subcommand: lists the models that "monolith serve" would serve with the same settings, highest tier first,
then the other models in the download cache. MEMORY is the planned memory for weights, KV cache and buffers; FITS shows
whether that much memory is free now. The exit status is 1 if a configured model cannot be served.

--recommended lists models to start with, by the memory of the machine. It does not contact the hub.

serve adds a downloaded model to the running server and to every later start with the same --data-dir. It takes effect
within a second. The model is loaded by its first request, and unloaded after --idle-minutes without requests or when
another model needs the memory. unserve removes it; running requests finish.

Examples:
  monolith models                                  what would be served, and what is on disk
  monolith models --recommended
  monolith models serve small Qwen/Qwen3-4B-GGUF:Q4_K_M --idle-minutes 30
`;

export const FLAGS: OwnFlags = {
  '--json': 'switch',
  '--idle-minutes': 'value',
  '--display-name': 'value',
  '--recommended': 'switch',
};

interface Line extends Omit<FileFact, 'plan'> {
  name: string;
  served: boolean;
  file: string;
  fits: ReturnType<typeof fitOf>;
  [other: string]: unknown;
}

export async function models(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const {
    config: asked,
    values,
    words: [action, ...words],
  } = commandConfig(argv, FLAGS);
  if (values.has('--recommended')) {
    noWords(action === undefined ? [] : [action]);
    process.stdout.write(values.has('--json') ? `${JSON.stringify(RECOMMENDED)}\n` : recommendedText());
    return 0;
  }
  if (action !== undefined) return await changeServed(asked, action, words, values);
  const facts = new FileFacts(loadOptions(asked));
  const config = await withHubModels(asked, { fetches: false });
  const absent = config.model.filter(({ path }) => path.startsWith(HUB_SCHEME));
  const there = { ...config, model: config.model.filter((one) => !absent.includes(one)) };
  const memory = { total: totalMemory(), available: availableMemory() };
  const line = async (name: string, served: boolean, file: string, more: object = {}): Promise<Line> => {
    const fact = await facts.of(file);
    return { ...more, name, served, file, ...fact, fits: fitOf(fact, memory) };
  };
  const served: Line[] =
    absent.length > 0 && there.model.length === 0
      ? []
      : await Promise.all(
          configuredModels(there).map((model) =>
            model.adapter !== undefined
              ? adapterLine(model.id, model.adapter)
              : model.upstream === undefined
                ? line(model.id, true, model.file, model)
                : upstreamLine(model, model.upstream),
          ),
        );
  const beside = await servedBeside(asked);
  const known = new Set(served.map(({ name }) => name));
  served.push(
    ...(await Promise.all(
      [...beside]
        .filter(([name]) => !known.has(name))
        .map(([name, { source, path }]) => line(name, true, path, { id: name, source })),
    )),
  );
  const loaded = await adaptersBeside(asked);
  served.push(...[...loaded].filter(([id]) => !known.has(id)).map(([id, row]) => adapterLine(id, row)));
  const missing = absent.map(
    ({ name, path }): Line => ({
      id: name,
      name,
      served: true,
      file: path,
      problem: `not downloaded yet: ${commandName()} pull ${path.slice(HUB_SCHEME.length)}`,
      bytes: null,
      architecture: null,
      parameters: null,
      quantization: null,
      task: null,
      memory: null,
      fits: null,
    }),
  );
  const inUse = new Set(served.map(({ file }) => file));
  const others = await Promise.all(
    new Hub(config)
      .onDisk()
      .filter(({ path }) => !inUse.has(path))
      .map(({ ref, path, isOld }) => line(isOld ? `${ref} (old)` : ref, false, path)),
  );
  const all = [...served, ...missing, ...others];
  if (values.has('--json')) process.stdout.write(`${JSON.stringify(all)}\n`);
  else process.stdout.write(tableOf(served.concat(missing), others));
  return [...served, ...missing].some(({ problem }) => problem !== null) ? 1 : 0;
}

/** The upstream's API key is omitted, because the result is displayed. */
function upstreamLine({ id, display_name }: CatalogModel, { servers }: Upstream): Line {
  const at = servers.map(({ url, api, model }) => ({ url, api, model: model ?? id }));
  return {
    id,
    display_name,
    name: id,
    served: true,
    file: at.map(({ url }) => url).join(', '),
    upstream: at,
    problem: null,
    bytes: null,
    architecture: null,
    parameters: null,
    quantization: null,
    task: null,
    memory: null,
    fits: null,
  };
}

/** A LoRA adapter. Whether it is compatible with its model is known only after loading. */
function adapterLine(id: string, { base, path }: Pick<AdapterSource, 'base' | 'path'>): Line {
  return {
    id,
    name: id,
    served: true,
    file: path,
    adapter_of: base,
    problem: adapterPathProblem(path),
    bytes: modelBytes(path),
    architecture: `LoRA adapter of ${base}`,
    parameters: null,
    quantization: null,
    task: null,
    memory: null,
    fits: null,
  };
}

const HEAD = ['NAME', 'SIZE', 'ARCHITECTURE', 'MEMORY', 'FITS', 'FILE'];
const FITS: Record<string, string> = { yes: 'yes', later: 'not now', no: 'no' };

function row({ name, file, problem, architecture, quantization, memory, fits, bytes }: Line): string[] {
  const kind = [architecture, quantization].filter((one) => one !== null).join(' ');
  return [
    name,
    bytes === null ? '' : showBytes(bytes),
    kind,
    memory === null ? '' : showBytes(memory),
    FITS[fits ?? ''] ?? '',
    problem === null ? file : `cannot be served: ${problem}`,
  ];
}

function tableOf(served: readonly Line[], others: readonly Line[]): string {
  const small = served.some((one) => one['demonstration'] === true)
    ? `\nThese are small demonstration models. For full-size models: ${commandName()} models --recommended\n`
    : '';
  const rest =
    others.length === 0
      ? ''
      : `\nOn disk, not served; to serve one: ${commandName()} models serve NAME MODEL\n\n${table([HEAD, ...others.map(row)])}`;
  return `${table([HEAD, ...served.map(row)])}${small}${rest}`;
}
