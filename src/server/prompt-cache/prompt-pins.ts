// Pinned prompts are system prompts, with or without tools, whose KV pages stay in memory and on disk. They are
// prefilled when they are pinned, and again when their model is loaded after a restart. Pages that are already on disk
// are loaded instead of computed. Primary thread only.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Organizations } from '../../accounts/organizations.js';
import type { SecretBox } from '../../accounts/sealing/secret-box.js';
import type { PinnedPromptRow, PromptPinStore } from '../../dashboard/admin/prompt-pin-store.js';
import type { KvTier } from '../../engine/kv-tier/kv-tier.js';
import { keptForPin } from '../../engine/kv-tier/labels.js';
import { PAGE_TOKENS } from '../../engine/kv-tier/page-content.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { Provider } from '../../generation/provider.js';
import type { ServedModels } from '../../generation/served-models.js';
import { apiError } from '../../shared/errors.js';
import type { PinnedPrompt } from '../../shared/wire/prompt-cache.js';
import type { Log } from '../../telemetry/types.js';
import { shownOf, type PinnedContent } from './pinned-content.js';
import { compute, sharedPrefix } from './prompt-prefix.js';

/** Interval between checks of pinned prompts, in ms. */
const LOOK_MS = 5_000;
/**
 * Delay, in ms, between two attempts to restore a prompt's missing pages. Doubled after each attempt, up to
 * MAX_RETRY_MS.
 */
const RETRY_MS = 10_000;
const MAX_RETRY_MS = 600_000;
/** Maximum time, in ms, that warm() waits until the pages are on disk. */
const STORED_MS = 20_000;
const STORED_LOOK_MS = 50;
const SHOWN_CHARACTERS = 80;
/**
 * Interval, in ms, between renderings of a complete prompt. The prompt is also rendered again when the date changes,
 * because chat templates may contain the time or date.
 */
const RENDER_MS = 3_600_000;
const UNREADABLE = 'its text cannot be read, because it was sealed with a key that is missing';

export interface PromptPinDeps {
  readonly store: PromptPinStore;
  readonly tier: Pick<KvTier, 'pin' | 'unpin'>;
  readonly models: ServedModels;
  readonly pool: Pick<ModelPool, 'engines' | 'get'>;
  readonly organizations: Pick<Organizations, 'get'>;
  readonly box: SecretBox;
  readonly max: number;
  readonly minTokens: number;
  readonly log: Log;
}

interface Pin {
  row: PinnedPromptRow;
  /** The decrypted prompt or request. Null if it cannot be decrypted. */
  readonly content: PinnedContent | null;
  /**
   * The full pages that all conversations with this prompt share, and one more token. Null until the model has been
   * loaded.
   */
  tokens: Int32Array | null;
  /** performance.now() of the last rendering. `renderedOn` contains the local date. */
  renderedAt: number;
  renderedOn: string;
  memoryTokens: number;
  diskTokens: number;
  problem: string | null;
  retryMs: number;
  retryAt: number;
}

const fullTokens = (tokens: Int32Array): number => tokens.length - 1;

export class PromptPins {
  readonly #pins = new Map<string, Pin>();
  readonly #timer: NodeJS.Timeout;
  #work: Promise<unknown> = Promise.resolve();
  #lookWaits = false;
  readonly #stopped = new AbortController();

  private constructor(private readonly deps: PromptPinDeps) {
    this.#timer = setInterval(() => this.#lookSoon(), LOOK_MS);
    this.#timer.unref();
  }

  static async open(deps: PromptPinDeps): Promise<PromptPins> {
    const pins = new PromptPins(deps);
    for (const row of await deps.store.all()) {
      const opened = openContent(deps.box, row);
      if (opened === null) {
        deps.log.error({ pin: row.id }, 'cannot read a pinned prompt: it was sealed with a key that is missing');
        pins.#pins.set(row.id, { ...newPin(row, null), problem: UNREADABLE });
        continue;
      }
      const { content, current } = opened;
      const kept = current ? row : { ...row, sealedPrompt: deps.box.seal(content.purpose, row.id, content.text) };
      if (!current) await deps.store.put(kept);
      pins.#pins.set(row.id, newPin(kept, content));
    }
    return pins;
  }

  /**
   * Prefills a prompt and pins its pages. Returns it in the state `partial` if some of its pages are not on disk
   * after 20 seconds. Throws an ApiError.
   */
  warm(model: string, organizationId: string, content: PinnedContent): Promise<PinnedPrompt> {
    return this.#inTurn(async () => {
      const { store, box, models, max } = this.deps;
      const { name } = models.find(model);
      const same = [...this.#pins.values()].find(
        ({ row, content: other }) =>
          row.model === name &&
          row.organizationId === organizationId &&
          other?.purpose === content.purpose &&
          other.text === content.text,
      );
      if (same === undefined && this.#pins.size >= max)
        throw apiError('value_out_of_range', `${max} prompts are pinned, the maximum (kv.max_pinned).`, 'prompt');
      const id = same?.row.id ?? `pin_${randomBytes(9).toString('hex')}`;
      const sealedPrompt = box.seal(content.purpose, id, content.text);
      const pin =
        same ?? newPin({ id, model: name, organizationId, sealedPrompt, createdAt: new Date().toISOString() }, content);
      if (same === undefined) {
        this.#pins.set(id, pin);
        await store.put(pin.row); // before its pages are stored: pages of unknown pins are erased
      }
      try {
        await models.find(name).ensureLoaded({ signal: this.#stopped.signal });
        await this.#fill(pin);
        await this.#waitUntilStored(pin);
        const needed = fullTokens(pin.tokens!);
        if (pin.memoryTokens < needed)
          throw apiError(
            'value_out_of_range',
            `${pin.memoryTokens} of ${needed} tokens can be pinned in memory. Pinned prompts may use a quarter of the KV cache (engine.kv_bytes).`,
            'prompt',
          );
        return await this.#shown(pin);
      } catch (error) {
        if (same === undefined) await this.#remove(id);
        throw error;
      }
    });
  }

  /** Unpins a prompt and returns its last state. Throws ApiError 404 if the prompt is not pinned. */
  unpin(id: string): Promise<PinnedPrompt> {
    return this.#inTurn(async () => {
      const pin = this.#pins.get(id);
      if (pin === undefined) throw apiError('resource_not_found', 'Pinned prompt not found.', 'id');
      const shown = await this.#shown(pin);
      await this.#remove(id);
      return shown;
    });
  }

  /** Returns all pinned prompts, oldest first. */
  list(): Promise<PinnedPrompt[]> {
    return Promise.all([...this.#pins.values()].map((pin) => this.#shown(pin)));
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    clearInterval(this.#timer);
    await this.#work; // ends soon, because the signal cancels everything it waits for
  }

  /** Runs tasks one at a time. Rejects a task if the server has started to shut down before the task starts. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(() => {
      if (this.#stopped.signal.aborted) throw apiError('shutting_down', 'The server is shutting down.');
      return work();
    });
    this.#work = result.catch(() => undefined);
    return result;
  }

  /** Queues a check of all pinned prompts, unless one is already queued. */
  #lookSoon(): void {
    if (this.#lookWaits) return;
    this.#lookWaits = true;
    const look = this.#inTurn(() => {
      this.#lookWaits = false;
      return this.#look();
    });
    void look.catch(() => undefined); // rejects only during shutdown
  }

  async #remove(id: string): Promise<void> {
    const { store, tier } = this.deps;
    const pin = this.#pins.get(id);
    if (pin === undefined) return;
    await store.remove(id);
    this.#pins.delete(id);
    await tier.unpin(id, pin.row.organizationId);
  }

  /**
   * Checks all pinned prompts: removes the prompts of deleted organizations, and restores missing pages of the
   * others.
   */
  async #look(): Promise<void> {
    for (const pin of [...this.#pins.values()]) {
      if (this.#stopped.signal.aborted) return;
      try {
        if ((await this.deps.organizations.get(pin.row.organizationId)) === null) {
          await this.#remove(pin.row.id);
          continue;
        }
        if (pin.content === null) continue;
        if (this.deps.pool.get(pin.row.model)?.status.state !== 'ready') {
          Object.assign(pin, { memoryTokens: 0, retryMs: RETRY_MS, retryAt: 0 });
          continue;
        }
        if (pin.tokens !== null) await this.#hold(pin);
        const isDue = performance.now() >= pin.retryAt;
        if (isDue && (!isComplete(pin) || (isOutdated(pin) && (await this.#hasChanged(pin))))) await this.#fill(pin);
        else if (isComplete(pin)) pin.problem = null;
      } catch (error) {
        pin.problem = error instanceof Error ? error.message : String(error);
      }
    }
  }

  /** Prefills the prompt or loads its pages from disk, and pins the pages. */
  async #fill(pin: Pin): Promise<void> {
    const { id, model, organizationId } = pin.row;
    pin.retryAt = performance.now() + pin.retryMs;
    pin.retryMs = Math.min(2 * pin.retryMs, MAX_RETRY_MS);
    const { provider, organization, tokens } = await this.#rendered(pin);
    pin.tokens = tokens;
    await compute({
      provider,
      model,
      tokens: pin.tokens,
      context: { organization, organizationId },
      label: keptForPin(id),
      signal: this.#stopped.signal,
    });
    await this.#hold(pin);
    pin.problem = null;
  }

  /** Renders the prompt again and returns whether its tokens have changed. */
  async #hasChanged(pin: Pin): Promise<boolean> {
    const { tokens } = await this.#rendered(pin);
    return Buffer.compare(bytesOf(tokens), bytesOf(pin.tokens ?? new Int32Array())) !== 0;
  }

  /** Renders the prompt. `tokens`: the full pages that all conversations with this prompt share, and one more token. */
  async #rendered(pin: Pin): Promise<{ provider: Provider; organization: number; tokens: Int32Array }> {
    const { models, organizations, minTokens } = this.deps;
    const { model, organizationId } = pin.row;
    if (pin.content === null) throw apiError('internal_error', UNREADABLE);
    Object.assign(pin, { renderedAt: performance.now(), renderedOn: new Date().toDateString() });
    const organization = (await organizations.get(organizationId))?.tenant;
    if (organization === undefined) throw apiError('resource_not_found', 'Organization not found.', 'organization');
    const served = models.find(model);
    const provider = served.ready();
    const shared = await sharedPrefix(provider, { model: served, content: pin.content, organization });
    // The engine always computes the last token of a prompt, so a page that contains it cannot be reused.
    const full = shared.length - 1 - ((shared.length - 1) % PAGE_TOKENS);
    if (full < Math.max(minTokens, PAGE_TOKENS))
      throw apiError(
        'value_out_of_range',
        `The prompt has ${shared.length} tokens that all conversations share. More than ${minTokens} are required (kv.min_tokens).`,
        'prompt',
      );
    return { provider, organization, tokens: shared.slice(0, full + 1) };
  }

  async #hold(pin: Pin): Promise<void> {
    const { tier, pool, organizations } = this.deps;
    const { id, model, organizationId } = pin.row;
    const engine = pool
      .engines()
      .find(({ names, adapterNames }) => names.includes(model) || adapterNames.includes(model))?.key;
    const status = pool.get(model)?.status;
    const organization = await organizations.get(organizationId);
    if (engine === undefined || organization === null || pin.tokens === null) return;
    // Without the adapter's cache key, the base model's pages would be pinned.
    if (status?.state !== 'ready') return;
    const state = await tier.pin({
      pin: id,
      engine,
      organization: organization.tenant,
      organizationId,
      tokens: pin.tokens,
      adapter: status.adapter?.cacheKey ?? '',
    });
    pin.memoryTokens = state?.memoryTokens ?? 0;
    pin.diskTokens = state?.diskTokens ?? 0;
    if (isComplete(pin)) Object.assign(pin, { retryMs: RETRY_MS, retryAt: 0 });
  }

  /** Waits until all pages are on disk, but at most STORED_MS. Pages are written to disk after the prefill. */
  async #waitUntilStored(pin: Pin): Promise<void> {
    for (const end = performance.now() + STORED_MS; performance.now() < end && !this.#stopped.signal.aborted; ) {
      await this.#hold(pin);
      if (isComplete(pin)) return;
      await sleep(STORED_LOOK_MS);
    }
  }

  async #shown(pin: Pin): Promise<PinnedPrompt> {
    const { row, content, tokens, memoryTokens, diskTokens, problem } = pin;
    const shown = content === null ? { start: '', tools: 0 } : shownOf(content);
    const isReady = this.deps.pool.get(row.model)?.status.state === 'ready';
    return {
      id: row.id,
      model: row.model,
      organization: row.organizationId,
      organization_name: (await this.deps.organizations.get(row.organizationId))?.name ?? null,
      created_at: row.createdAt,
      start: shown.start.slice(0, SHOWN_CHARACTERS),
      tools: shown.tools,
      tokens: tokens === null ? null : fullTokens(tokens),
      memory_tokens: isReady ? memoryTokens : 0,
      disk_tokens: diskTokens,
      state: content === null ? 'failed' : isReady ? stateOf(pin) : 'waiting',
      problem,
    };
  }
}

const isComplete = ({ tokens, memoryTokens, diskTokens }: Pin): boolean =>
  tokens !== null && Math.min(memoryTokens, diskTokens) >= fullTokens(tokens);

/** Returns the state of a pinned prompt whose model is loaded. */
function stateOf(pin: Pin): PinnedPrompt['state'] {
  if (isComplete(pin)) return 'pinned';
  return pin.problem === null ? 'partial' : 'failed';
}

const isOutdated = ({ renderedAt, renderedOn }: Pin): boolean =>
  performance.now() - renderedAt > RENDER_MS || renderedOn !== new Date().toDateString();

const bytesOf = (tokens: Int32Array): Buffer => Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength);

function openContent(box: SecretBox, row: PinnedPromptRow): { content: PinnedContent; current: boolean } | null {
  for (const purpose of ['pinned prompt', 'pinned request'] as const) {
    const opened = box.open(purpose, row.id, row.sealedPrompt);
    if (opened !== null) return { content: { purpose, text: opened.text }, current: opened.current };
  }
  return null;
}

const newPin = (row: PinnedPromptRow, content: PinnedContent | null): Pin => ({
  row,
  content,
  tokens: null,
  renderedAt: 0,
  renderedOn: '',
  memoryTokens: 0,
  diskTokens: 0,
  problem: null,
  retryMs: RETRY_MS,
  retryAt: 0,
});
