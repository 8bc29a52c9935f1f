// An engine with a storage tier, without a server. Requests import stored pages, run, and export their pages in the
// same way as in the server. The pages are stored in a directory, where a later engine can find them, in the same
// process or another one.
import { setTimeout as sleep } from 'node:timers/promises';

import type { LoadOptions, SubmitOptions } from '../../src/engine/addon-types.js';
import { Engine } from '../../src/engine/engine.js';
import { KvTier } from '../../src/engine/kv-tier/kv-tier.js';
import type { TierReport } from '../../src/engine/kv-tier/messages.js';
import { TierClient, type Prefetched } from '../../src/engine/kv-tier/tier-client.js';
import { TIER_STATE_BYTES, TierState } from '../../src/engine/kv-tier/tier-state.js';
import { loadAddon } from '../../src/engine/load-addon.js';

export const ORGANIZATION = 'org_bench';
const KEY = Buffer.alloc(32, 1); // not a secret
const MIN_TOKENS = 64;
const DRAIN_MS = 60_000;

let opened = 0;

export interface TieredOptions {
  readonly model: string;
  readonly load: LoadOptions;
  /** Directory for stored pages. Null: no storage tier. */
  readonly folder: string | null;
  readonly maxBytes?: number;
  /** Maximum total size of exported pages that are not yet on disk, in bytes. */
  readonly backlogBytes?: number;
  /** Returns the encryption key of the organization (32 bytes). */
  readonly keyOf?: () => Promise<Uint8Array>;
}

export interface Answer {
  /** Time from the request to its first token, in ms. Includes the time to read stored pages. */
  readonly firstTokenMs: number;
  readonly readMs: number;
  readonly cachedTokens: number;
  readonly tokens: readonly number[];
}

export class TieredEngine {
  private constructor(
    readonly engine: Engine,
    readonly name: string,
    readonly tier: KvTier | null,
    readonly client: TierClient | null,
  ) {}

  /** Resolves when the model is loaded and its stored pages can be read. */
  static async open({ model, load, folder, ...more }: TieredOptions): Promise<TieredEngine> {
    const name = `${model}#${++opened}`;
    const engine = new Engine(await loadAddon().load(name, model, load, () => undefined), load);
    if (folder === null) return new TieredEngine(engine, name, null, null);
    const process = `bench ${opened}`;
    const state = new TierState(new SharedArrayBuffer(TIER_STATE_BYTES));
    let ready = (): void => undefined;
    const isReady = new Promise<void>((resolve) => (ready = resolve));
    const tier = new KvTier({
      folder,
      process,
      state,
      maxBytes: more.maxBytes ?? 2 ** 36,
      minTokens: MIN_TOKENS,
      backlogBytes: more.backlogBytes ?? 2 ** 28,
      encrypts: true,
      keyOf: more.keyOf ?? (() => Promise.resolve(KEY)),
      report: (news) => {
        if (news.type === 'ready') ready();
        else console.error(`storage tier: ${news.action}: ${news.message}`);
      },
    });
    await tier.attach({ key: name, file: model, options: load });
    await isReady;
    const client = new TierClient({ process, thread: 0, mode: 'all', minTokens: MIN_TOKENS, state });
    return new TieredEngine(engine, name, tier, client);
  }

  /** Runs a request in the same way as LocalProvider. `keeps`: whether the request's pages are exported. */
  async answer(request: SubmitOptions, keeps = true): Promise<Answer> {
    const from = performance.now();
    const pages = await this.read(request.prompt, request.organization);
    const readMs = performance.now() - from;
    const retain = keeps ? this.client?.labelFor(ORGANIZATION, {}) : undefined;
    return new Promise((resolve, reject) => {
      let firstTokenMs = 0;
      let cachedTokens = 0;
      const tokens: number[] = [];
      const options = { ...request, returnTokens: true, ...(retain === undefined ? {} : { retain }) };
      this.engine.generate(options, (event) => {
        pages.release();
        if (event.type === 'started') ({ cachedTokens } = event);
        if (event.type === 'tokens') {
          if (tokens.length === 0) firstTokenMs = performance.now() - from;
          tokens.push(...event.ids);
        }
        if (event.type === 'finished') resolve({ firstTokenMs, readMs, cachedTokens, tokens });
        if (event.type === 'failed') reject(new Error(`the engine failed: ${event.message}`));
      });
    });
  }

  /**
   * Reads the stored pages of a prompt into memory and pins them until they are released. `organization`: the
   * organization to whose part of the prefix cache the pages are added.
   */
  async read(prompt: Int32Array, organization = 1): Promise<Prefetched> {
    if (this.client === null) return { tokens: 0, miss: null, release: () => undefined };
    const from = { organization, organizationId: ORGANIZATION };
    return await this.client.prefetch(this.name, { ...from, tokens: prompt, spans: [] });
  }

  /** Resolves when all exported pages are on disk. Rejects after one minute. */
  async written(): Promise<void> {
    for (const end = performance.now() + DRAIN_MS; performance.now() < end; await sleep(5))
      if ((await this.report())?.pagesWaiting === 0) return;
    throw new Error('the pages are not on disk after a minute');
  }

  /** Returns the counters of the storage tier. Null without a tier. */
  async report(): Promise<TierReport | null> {
    return (await this.tier?.report()) ?? null;
  }

  /** Closes the engine. Writes pages that are not yet on disk, for at most `drainMs` milliseconds. */
  async close(drainMs = DRAIN_MS): Promise<void> {
    await this.tier?.detach(this.name, drainMs);
    this.client?.close();
    await this.tier?.close(drainMs);
    await this.engine.close();
  }
}
