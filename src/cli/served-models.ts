// monolith models serve and unserve: changes the data directory or the shared database, even while a server is using
// it. A running server picks up a change within a second.

import type { Actor } from '../accounts/audit.js';
import type { Config } from '../config/settings.js';
import { MAX_IDLE_MINUTES } from '../config/kinds.js';
import { FileFacts } from '../engine/file-facts.js';
import { ApiError } from '../shared/errors.js';
import { Hub, withHubModels } from '../hub/hub.js';
import { HUB_SCHEME } from '../hub/model-ref.js';
import { serveFetched } from '../dashboard/admin/serve-fetched.js';
import type { AdapterRow, AdapterStore } from '../dashboard/admin/adapter-store.js';
import type { ServedModelRow, ServedModelStore } from '../dashboard/admin/served-model-store.js';
import { withStores } from '../server/command-stores.js';
import { configuredModels, loadOptions } from '../server/engine-settings.js';
import { availableMemory, totalMemory } from '../engine/machine-memory.js';
import { MissingDatabase } from '../storage/missing-database.js';
import { noWords, UsageError } from '../config/arguments.js';

const ACTOR: Actor = { type: 'command_line', id: null, email: null, ip: null };

/** Models that operators serve in addition to the configured ones; empty if there is no database yet. */
export async function servedBeside(config: Config): Promise<ReadonlyMap<string, ServedModelRow>> {
  try {
    return await withServed(config, ({ served }) => served.all());
  } catch (error) {
    if (error instanceof MissingDatabase) return new Map();
    throw error;
  }
}

/** LoRA adapters that operators have loaded at run time; empty if there is no database yet. */
export async function adaptersBeside(config: Config): Promise<ReadonlyMap<string, AdapterRow>> {
  try {
    return await withStores(config, ({ adapters }) => adapters.all());
  } catch (error) {
    if (error instanceof MissingDatabase) return new Map();
    throw error;
  }
}

/** `serve NAME MODEL` or `unserve NAME`. Throws UsageError. */
export async function changeServed(
  config: Config,
  action: string,
  words: readonly string[],
  values: ReadonlyMap<string, string>,
): Promise<number> {
  const [name, ...others] = words;
  if (action !== 'serve' && action !== 'unserve')
    throw new UsageError(`models: expected serve or unserve, not "${action}"`);
  if (name === undefined) throw new UsageError(`models: ${action} needs a name`);
  return await withServed(config, async ({ served, adapters }) => {
    if (action === 'unserve') {
      noWords(others);
      const source = (await served.all()).get(name)?.source ?? null;
      if (!(await served.remove(name, { actor: ACTOR, action: 'model.unserved', detail: { model: source } })))
        throw new UsageError(`models: "${name}" is not served by "monolith models serve"`);
      process.stdout.write(`${name} is no longer served; running requests continue\n`);
      return 0;
    }
    const [model, ...more] = others;
    noWords(more);
    if (model === undefined)
      throw new UsageError(
        'models: serve needs a name and a model, such as "monolith models serve small OWNER/REPO:Q4_K_M"',
      );
    const minutes = values.get('--idle-minutes');
    const idleMinutes = minutes === undefined ? null : Number(minutes);
    if (idleMinutes !== null && !(idleMinutes > 0 && idleMinutes <= MAX_IDLE_MINUTES))
      throw new UsageError(`models: --idle-minutes takes a number up to ${MAX_IDLE_MINUTES}`);
    const displayName = values.get('--display-name');
    if (displayName !== undefined && (displayName === '' || displayName.length > 128))
      throw new UsageError('models: --display-name takes 1 to 128 characters');
    try {
      const { source } = await serveFetched(
        { name, model, displayName, idleMinutes },
        {
          store: served,
          hub: new Hub(config),
          fileFacts: new FileFacts(loadOptions(config)),
          taken: new Set([...(await configuredNames(config)), ...(await adapters.all()).keys()]),
          memory: { total: totalMemory(), available: availableMemory() },
        },
        ACTOR,
      );
      process.stdout.write(
        `${name} serves ${source}. This takes effect on a running server within a second and persists across restarts.\n`,
      );
      return 0;
    } catch (error) {
      if (error instanceof ApiError) throw new UsageError(`models: ${error.message}`, error);
      throw error;
    }
  });
}

interface Stores {
  readonly served: ServedModelStore;
  readonly adapters: AdapterStore;
}

const withServed = <T>(config: Config, work: (stores: Stores) => Promise<T>): Promise<T> => withStores(config, work);

/**
 * Names of the models and aliases in this command's settings. A server with different settings reports conflicts in its
 * log. Throws CatalogError.
 */
export async function configuredNames(config: Config): Promise<string[]> {
  const { model } = await withHubModels(config, { fetches: false });
  const there = { ...config, model: model.filter(({ path }) => !path.startsWith(HUB_SCHEME)) };
  return [
    ...new Set([
      ...configuredModels(there).map(({ id }) => id),
      ...model.map(({ name }) => name),
      ...Object.keys(config.models.aliases),
    ]),
  ];
}
