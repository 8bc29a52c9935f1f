// The operators' interface to the prompt cache: reports the cache's contents in memory and on disk, clears the cache,
// and pins and unpins prompts. The primary thread does the work. Other threads send commands to it over the bus of the
// process.

import type { Organizations } from '../../accounts/organizations.js';
import type { CacheUse } from '../../engine/kv-tier/cache-tally.js';
import type { KvTier } from '../../engine/kv-tier/kv-tier.js';
import type { StoredPages } from '../../engine/kv-tier/messages.js';
import type { ModelPool, PooledEngine } from '../../engine/model-pool.js';
import { ApiError, apiError } from '../../shared/errors.js';
import type { ThreadBus } from '../../shared/bus.js';
import type {
  CachedModel,
  CachedOrganization,
  CacheUseTotals,
  PinnedPrompt,
  PromptCacheAnswer,
  PromptCacheCleared,
  PromptCacheCommand,
  PromptCacheState,
} from '../../shared/wire/prompt-cache.js';
import { contentOf } from './pinned-content.js';
import type { PromptPins } from './prompt-pins.js';

/** Maximum number of organizations listed per model. */
const MAX_ORGANIZATIONS = 50;
/**
 * Timeout of a command in ms. Prefilling a long prompt can take minutes, and its model may have to be loaded first.
 */
const ANSWER_MS = 900_000;

export interface PromptCacheDeps {
  readonly pool: Pick<ModelPool, 'engines'>;
  /** Null if KV pages are not kept on disk. */
  readonly disk: {
    readonly tier: Pick<KvTier, 'clear' | 'report' | 'stored'>;
    readonly mode: 'stored' | 'all';
    readonly pins: PromptPins;
  } | null;
  readonly organizations: Pick<Organizations, 'all' | 'get'>;
  readonly maxPinned: number;
}

/** Runs prompt-cache commands. run() rejects with an ApiError. */
export interface PromptCache {
  run(command: PromptCacheCommand): Promise<PromptCacheState | PromptCacheCleared | PinnedPrompt>;
}

export class OwnPromptCache implements PromptCache {
  constructor(private readonly deps: PromptCacheDeps) {}

  async run(command: PromptCacheCommand): Promise<PromptCacheState | PromptCacheCleared | PinnedPrompt> {
    switch (command.type) {
      case 'state':
        return this.#state();
      case 'clear':
        return this.#clear(command.model, command.organization);
      case 'warm': {
        const { pins } = this.#disk();
        const content = contentOf(command);
        return pins.warm(command.model, (await this.#organization(command.organization)).id, content);
      }
      case 'unpin':
        return this.#disk().pins.unpin(command.id);
    }
  }

  /** Returns the KV pages on disk. Throws ApiError 422 if pages are not kept on disk. */
  #disk(): NonNullable<PromptCacheDeps['disk']> {
    if (this.deps.disk === null)
      throw apiError('unsupported_value', 'Prompts can be pinned only if KV pages are kept on disk (kv.disk).', null);
    return this.deps.disk;
  }

  /** Finds an organization by ID or name; null finds the first one. Throws an ApiError if none or several match. */
  async #organization(wanted: string | null): Promise<{ id: string; tenant: number }> {
    const { organizations } = this.deps;
    if (wanted !== null) {
      const byId = await organizations.get(wanted);
      if (byId !== null) return byId;
    }
    const all = await organizations.all();
    const found = wanted === null ? all.slice(0, 1) : all.filter(({ name }) => name === wanted);
    if (found.length > 1)
      throw apiError('invalid_value', 'Several organizations have this name. Use the ID.', 'organization');
    const [one] = found;
    if (one === undefined) throw apiError('resource_not_found', 'Organization not found.', 'organization');
    return one;
  }

  /** Finds the engine of a model by public name. Throws ApiError 404 if there is none. */
  #engine(model: string): PooledEngine {
    const found = this.deps.pool.engines().find(({ names }) => names.includes(model));
    if (found === undefined) throw apiError('resource_not_found', `Model not found: ${model}.`, 'model');
    return found;
  }

  async #clear(model: string | null, wanted: string | null): Promise<PromptCacheCleared> {
    const { pool, disk } = this.deps;
    const only = model === null ? null : this.#engine(model);
    const organization = wanted === null ? null : await this.#organization(wanted);
    const clearMemory = (): string[] =>
      (only === null ? pool.engines() : [only]).flatMap(({ status, names }) => {
        if (status.state !== 'ready') return [];
        status.engine.clearCache(organization?.tenant);
        return names;
      });
    // Memory is cleared both before and after the disk, because pages can move between the two in the meantime.
    clearMemory();
    const erased = await disk?.tier.clear(organization?.id ?? null, only?.file ?? null);
    return {
      object: 'prompt_cache.cleared',
      models: clearMemory(),
      disk_records: erased?.records ?? 0,
      disk_bytes: erased?.bytes ?? 0,
    };
  }

  async #state(): Promise<PromptCacheState> {
    const { disk, pool, maxPinned } = this.deps;
    const [report, stored, pinned] =
      disk === null ? [null, [], []] : await Promise.all([disk.tier.report(), disk.tier.stored(), disk.pins.list()]);
    const uses = report?.uses ?? [];
    const engines = pool.engines();
    const others = new Set([...stored, ...uses].map(({ file }) => file));
    for (const { file } of engines) others.delete(file);
    const of = (file: string, engine: PooledEngine | null): Promise<CachedModel> =>
      this.#model(
        engine ?? { file, names: [] },
        stored.filter((one) => one.file === file),
        uses.filter((one) => one.file === file),
      );
    return {
      object: 'prompt_cache',
      disk:
        disk === null || report === null ? null : { mode: disk.mode, bytes: report.bytes, max_bytes: report.maxBytes },
      models: await Promise.all([
        ...engines.map((engine) => of(engine.file, engine)),
        ...[...others].map((file) => of(file, null)),
      ]),
      pinned,
      max_pinned: disk === null ? 0 : maxPinned,
    };
  }

  async #model(
    { file, names, status }: Pick<PooledEngine, 'file' | 'names'> & Partial<PooledEngine>,
    stored: readonly StoredPages[],
    uses: readonly CacheUse[],
  ): Promise<CachedModel> {
    const ids = new Set([...uses, ...stored].map(({ organization }) => organization));
    const rows = [...ids].map((id) => ({
      id,
      disk: sumOf(stored.filter(({ organization }) => organization === id)),
      use: totalsOf(uses.filter(({ organization }) => organization === id)),
    }));
    rows.sort((a, b) => b.use.prompt_tokens - a.use.prompt_tokens || b.disk.bytes - a.disk.bytes);
    const organizations = await Promise.all(
      rows.slice(0, MAX_ORGANIZATIONS).map(
        async (row): Promise<CachedOrganization> => ({
          ...row,
          name: (await this.deps.organizations.get(row.id))?.name ?? null,
        }),
      ),
    );
    const stats = status?.state === 'ready' ? status.engine.stats() : null;
    return {
      names,
      file,
      memory:
        stats === null
          ? null
          : { pages: stats.pagesTotal, free_pages: stats.pagesFree, cached_pages: stats.pagesCached },
      disk: sumOf(stored),
      use: totalsOf(uses),
      organizations,
    };
  }
}

const sumOf = (stored: readonly StoredPages[]): { pages: number; bytes: number } => ({
  pages: stored.reduce((sum, { pages }) => sum + pages, 0),
  bytes: stored.reduce((sum, { bytes }) => sum + bytes, 0),
});

function totalsOf(uses: readonly CacheUse[]): CacheUseTotals {
  const sum = (of: (use: CacheUse) => number): number => uses.reduce((total, use) => total + of(use), 0);
  return {
    requests: sum(({ requests }) => requests),
    prompt_tokens: sum(({ promptTokens }) => promptTokens),
    memory_tokens: sum(({ memoryTokens }) => memoryTokens),
    disk_tokens: sum(({ diskTokens }) => diskTokens),
    read_bytes: sum(({ readBytes }) => readBytes),
    written_bytes: sum(({ writtenBytes }) => writtenBytes),
    saved_s: Math.round(sum(({ savedMs }) => savedMs)) / 1000,
  };
}

/** Runs a command from another thread or from the status socket. Never rejects: errors are part of the response. */
export async function answerOf(cache: PromptCache, command: PromptCacheCommand): Promise<PromptCacheAnswer> {
  try {
    return { ok: true, result: await cache.run(command) };
  } catch (error) {
    if (error instanceof ApiError) return { ok: false, code: error.code, message: error.message, param: error.param };
    return { ok: false, code: 'internal_error', message: String(error), param: null };
  }
}

/** The prompt cache on threads other than the primary one. Sends commands to the primary thread. */
export class RemotePromptCache implements PromptCache {
  constructor(private readonly bus: Pick<ThreadBus, 'ask'>) {}

  async run(command: PromptCacheCommand): Promise<PromptCacheState | PromptCacheCleared | PinnedPrompt> {
    const answers = await this.bus.ask('prompt_cache.command', command, ANSWER_MS);
    const answer = answers.find((one) => one !== null);
    if (answer === undefined) throw apiError('internal_error', 'The primary thread did not respond.');
    if (answer.ok) return answer.result;
    throw apiError(answer.code, answer.message, answer.param);
  }
}
