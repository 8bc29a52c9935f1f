// monolith rm: deletes a downloaded model from the cache, unless a server uses it.

import { realpathSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { didYouMean } from '../config/did-you-mean.js';
import { showBytes } from '../config/kinds.js';
import type { Config } from '../config/settings.js';
import { Hub } from '../hub/hub.js';
import { parseModelRef } from '../hub/model-ref.js';
import { removable, remove } from '../hub/remove.js';
import type { Removable } from '../hub/remove.js';
import { RECOMMENDED, recommendedModel } from '../shared/recommended-models.js';
import { commandConfig } from './command-config.js';
import { commandName } from './command-name.js';
import { askedForHelp } from './output.js';
import { servedBeside } from './served-models.js';
import { serverStatus } from './server-status.js';

const HELP = `
Usage: monolith rm OWNER/REPO[:QUANTIZATION] [--yes]

Deletes a downloaded model and all its revisions from the cache. Without a quantization, every file of the repository
is deleted. A name from "monolith models --recommended" can be given instead. A model is not deleted if the server on
this data directory serves it, or if "monolith models serve" added it. The command asks for confirmation in a terminal;
elsewhere, --yes is required. Files outside the cache are never deleted.

Examples:
  monolith rm qwen3-4b
  monolith rm Qwen/Qwen3-8B-GGUF:Q4_K_M --yes
`;

export const FLAGS: OwnFlags = { '--yes': 'switch' };

export async function rm(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [word, ...others] = words;
  noWords(others);
  if (word === undefined) throw new UsageError('rm: a model is required, such as OWNER/REPO:Q4_K_M');
  const ref = recommendedModel(word)?.ref ?? word;
  if (!ref.includes('/')) throw new UsageError(await whyNot(config, word));
  const { cache } = new Hub(config);
  const found = removable(cache, parseModelRef(ref));
  const user = await userOf(config, found);
  if (user !== null) throw new UsageError(`rm: ${found.repo} is in use: ${user}`);
  const what = `${found.repo}: ${[...new Set(found.entries.map(({ weights }) => weights.quantization))].join(', ')}, ${showBytes(found.bytes)}`;
  if (!values.has('--yes') && !(await confirmed(`Delete ${what}?`))) {
    process.stderr.write('nothing deleted\n');
    return 1;
  }
  remove(cache, found);
  process.stdout.write(`deleted ${what}\n`);
  return 0;
}

/** Returns why a name that does not have the form OWNER/REPO cannot be deleted. */
async function whyNot(config: Config, name: string): Promise<string> {
  const status = await serverStatus(config.data_dir);
  const file = status?.models.find(({ names }) => names.includes(name))?.file;
  if (file != null) return `rm: ${name} is not in the cache of downloaded models; it is served from ${file}`;
  const names = RECOMMENDED.models.map((model) => model.name);
  return `rm: "${name}" is not a downloaded model; expected OWNER/REPO[:QUANTIZATION] or a recommended model.${didYouMean(name, names)} "${commandName()} models" lists the models on disk.`;
}

/** Describes how the model is in use; null if it is not in use. */
async function userOf(config: Config, { entries }: Removable): Promise<string | null> {
  const paths = new Set(entries.flatMap(({ path }) => [path, realpathSync(path)]));
  const uses = (file: string | null): boolean => file !== null && (paths.has(file) || paths.has(real(file)));
  const status = await serverStatus(config.data_dir);
  const model = status?.models.find(({ file }) => uses(file));
  if (model !== undefined) return `the server at ${status?.url ?? ''} serves it as ${model.names.join(', ')}`;
  for (const [name, { path }] of await servedBeside(config))
    if (uses(path)) return `"${commandName()} models unserve ${name}" first`;
  return null;
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

async function confirmed(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) throw new UsageError('rm: --yes is required if stdin is not a terminal');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim());
  } finally {
    terminal.close();
  }
}
