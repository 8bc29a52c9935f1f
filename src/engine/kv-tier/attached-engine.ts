// Connects one engine to the page store: stores the pages that the engine exports, and imports stored pages for new
// prompts. Worker thread only.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadOptions, NativeEngine, NativeTier, PageData, PageExport, TierEvent } from '../addon-types.js';
import { ImportCost } from './import-cost.js';
import { HAS_SNAPSHOT, planImport } from './import-plan.js';
import { KEPT_ALWAYS, KEPT_A_DAY, partsOfLabel } from './labels.js';
import type { Miss, MissReason, PinOrder, PinState, TierQuestion } from './messages.js';
import { PAGE_TOKENS, type OrganizationKeys } from './page-content.js';
import { PARTS, type PagePart } from './page-record.js';
import type { EngineIdentity, PageParts, PageStore } from './page-store.js';

const DAY_S = 86_400;
/** Number of bytes that are read and passed to the engine in one batch. */
const PART_BYTES = 2 * 1024 ** 2;
/** Number of batches that are read concurrently. */
const READ_AHEAD = 3;
/** Timeout for one response from the engine, whose steps may be long. */
const ANSWER_MS = 30_000;
const LOOK_MS = 10;
/** Maximum number of concurrent imports, which limits the memory for the pages being read. */
const MAX_IMPORTS = 4;
/** Number of computed tokens after which their mean time is used as an estimate. */
const MIN_ROWS = 1_000;

export interface ImportResult {
  readonly tokens: number;
  readonly import: number | null;
  readonly miss: Miss | null;
}

export interface EngineLinks {
  readonly store: PageStore;
  readonly minTokens: number;
  readonly backlogBytes: number;
  /** Returns an organization's keys, or null if the organization no longer has any. */
  keysOf(organizationId: string): Promise<OrganizationKeys | null>;
  report(action: string, error: unknown): void;
  /** read() counts the bytes read for an organization, and written() the bytes written. */
  read(organizationId: string, bytes: number): void;
  written(organizationId: string, bytes: number): void;
}

type Answer = Uint8Array | number | null;

interface Awaited {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

export class AttachedEngine {
  readonly #tier: NativeTier;
  readonly #answers = new Map<string, Awaited>();
  #identity: EngineIdentity | null = null;
  #nextImport = 1;
  #pendingExports: Promise<unknown> = Promise.resolve();
  /** Number of exported pages that have not been stored yet. */
  #pagesStoring = 0;
  /**
   * Number of pages that the engine had exported before this object was created. `#pagesArrived` counts pages received
   * since.
   */
  readonly #exportedBefore: number;
  #pagesArrived = 0;
  #closed = false;
  #importing = 0;
  readonly #importCost = new ImportCost();
  /** Open imports that hold the pages of pinned prompts in memory, by the ID of the pinned prompt. */
  readonly #pins = new Map<string, number>();
  skippedPages = 0;
  /** The estimate from an earlier process. */
  knownTokenMs = 0;
  /** Number of imported tokens whose prefill time is not yet included in the time saved. */
  uncountedTokens = 0;

  constructor(
    private readonly native: NativeEngine,
    private readonly options: LoadOptions,
    private readonly links: EngineLinks,
  ) {
    this.#exportedBefore = native.stats().pagesExported;
    this.#tier = native.openTier(links.backlogBytes, links.minTokens, (events) => this.#take(events));
  }

  /** No pages are stored or read until the hash of the model's files is known. */
  identify(files: Buffer): void {
    this.#identity = { key: engineKey(files, this.native, this.options), tokenMs: 1 };
    this.#tier.forget(); // export earlier pages again: they were not stored
    if (this.links.store.hasEngine(this.#identity.key)) this.#tier.touchPool();
  }
  /** Number of pages of finished requests that are not yet stored on disk. */
  get pagesWaiting(): number {
    const { exportsPending, pagesExported } = this.native.stats();
    return exportsPending + (pagesExported - this.#exportedBefore - this.#pagesArrived) + this.#pagesStoring;
  }
  get key(): Buffer | null {
    return this.#identity?.key ?? null;
  }
  /** Estimated time to compute one prompt token, in ms; 0: not known. */
  get tokenMs(): number {
    const { promptStepSeconds, promptStepRows } = this.native.stats();
    return promptStepRows >= MIN_ROWS ? (1000 * promptStepSeconds) / promptStepRows : this.knownTokenMs;
  }

  #take(events: readonly TierEvent[]): void {
    for (const event of events) {
      if (event.type === 'export') {
        const { length } = event.pages;
        this.#pagesArrived += length;
        this.#pagesStoring += length;
        this.#pendingExports = this.#pendingExports
          .then(() => this.#store(event))
          .finally(() => (this.#pagesStoring -= length));
      } else {
        const name = `${event.type} ${event.id}`;
        this.#answers.get(name)?.resolve(event.pages);
      }
    }
  }

  async #store(event: PageExport): Promise<void> {
    this.skippedPages += event.skipped;
    const bytes = event.pages.reduce((sum, page) => sum + bytesOf(page), 0);
    try {
      if (this.#closed) {
        this.skippedPages += event.pages.length;
        return;
      }
      const { organizationId, kept } = partsOfLabel(event.label);
      const keys = event.tokens.length < this.links.minTokens ? null : await this.links.keysOf(organizationId);
      if (keys === null || this.#identity === null) return;
      const label = kept === KEPT_A_DAY || kept === KEPT_ALWAYS ? null : event.label;
      await this.links.store.put({
        engine: { ...this.#identity, tokenMs: this.tokenMs },
        organization: keys,
        text: event,
        pages: event.pages.map((page) => ({ index: page.index, parts: page })),
        label,
        // The pages of a stored response are kept for as long as the response itself, regardless of the time limit; see
        // PageStore.
        keepS: kept === KEPT_ALWAYS ? 0 : DAY_S,
      });
      this.links.written(organizationId, bytes);
    } catch (error) {
      this.links.report('write', error);
    } finally {
      this.#tier.acknowledge(bytes);
    }
  }

  /** Reads the stored pages of a prompt into the engine's pool. The caller closes the import. Never rejects. */
  async prefetch(question: TierQuestion & { type: 'prefetch' }): Promise<ImportResult> {
    let id: number | null = null;
    try {
      const engine = this.#identity;
      if (engine === null) return missed('model unknown');
      const { store, minTokens } = this.links;
      const { organizationId, organization, tokens, spans } = question;
      const pages = Math.floor((tokens.length - 1) / PAGE_TOKENS);
      if (pages * PAGE_TOKENS < minTokens) return missed('below minimum');
      const keys = await this.links.keysOf(organizationId);
      if (keys === null) return missed('never stored');
      const { stored, missing } = store.lookUp(engine, keys, question, pages);
      const miss = missing === null ? null : missOf(store.whyMissing(engine, missing));
      if (stored.length === 0) return { tokens: 0, import: null, miss };
      if (stored.length * PAGE_TOKENS < minTokens) return missed('below minimum');
      if (this.#importing >= MAX_IMPORTS) return missed('no room');
      id = this.#nextImport++;
      this.#importing++;
      const own = id;
      const ask = (): void => this.#tier.openImport(own, organization, question, false);
      const held = (await this.#answer(`opened ${id}`, ask)) as Uint8Array | null;
      if (held === null) return missed('no room');
      const { full, window, snapshot, windowTokens } = this.native.pageSizes;
      const plan = planImport({
        held,
        stored,
        windowTokens: window > 0 ? windowTokens : 0,
        needsSnapshot: snapshot > 0,
        spans,
      });
      const sizes = { full, window, snapshot };
      const wanted = [...plan.wanted];
      if (wanted.length === 0) {
        this.release(id);
        return missed('in memory');
      }
      const bytes = wanted.reduce((sum, page) => sum + bytesOfParts(page, sizes), 0);
      if (!this.#importCost.isFaster(bytes, (plan.pages - plan.pagesBefore) * PAGE_TOKENS, this.tokenMs)) {
        this.release(id);
        return missed('faster to compute');
      }
      const from = performance.now();
      const read = async (pages: readonly Wanted[]): Promise<Map<number, PageParts>> => {
        const parts = await store.read(engine, keys, question, new Map(pages));
        for (const page of parts.values()) this.links.read(organizationId, bytesOf(page));
        return parts;
      };
      const written = await this.#import(id, wanted, sizes, read);
      if (written === 0) {
        this.release(id);
        return missed('no room');
      }
      if (written === wanted.length) this.#importCost.add(bytes, performance.now() - from);
      return { tokens: written * PAGE_TOKENS, import: id, miss };
    } catch (error) {
      if (this.#closed) return missed('model unknown');
      this.links.report('import', error);
      if (id !== null) this.release(id);
      return missed('unreadable');
    } finally {
      if (id !== null) this.#importing--;
    }
  }

  /** Returns the number of pages that were imported with all their parts. */
  async #import(
    id: number,
    wanted: readonly Wanted[],
    sizes: Sizes,
    read: (pages: readonly Wanted[]) => Promise<Map<number, PageParts>>,
  ): Promise<number> {
    let done = 0;
    let asked = 0;
    const batches = inBatches(wanted, sizes);
    // Later batches are read while the engine copies this one.
    const begin = (batch: readonly Wanted[]): Promise<Map<number, PageParts>> => {
      const reading = read(batch);
      reading.catch(() => undefined); // reported when it is awaited
      return reading;
    };
    const reads = batches.slice(0, READ_AHEAD).map(begin);
    try {
      for (const [at, batch] of batches.entries()) {
        const data = await reads.shift()!;
        const later = batches[at + READ_AHEAD];
        if (later !== undefined) reads.push(begin(later));
        const pages: PageData[] = [];
        for (const [index, parts] of batch) {
          const page = data.get(index);
          if (page === undefined || parts.some((part) => page[part]?.length !== sizes[part])) break;
          pages.push({ index, ...page });
        }
        asked += batch.length;
        if (pages.length > 0) {
          const ask = (): void => this.#tier.writeImport(id, pages);
          done += (await this.#answer(`written ${id}`, ask)) as number;
        }
        if (done < asked) break;
      }
    } finally {
      await Promise.allSettled(reads); // their records stay readable until then
    }
    return done;
  }

  release(id: number): void {
    this.#tier.closeImport(id);
  }

  /** Holds the pages of a prompt that are in memory, until unpin(). Never rejects. */
  async pin({ pin, organization, organizationId, tokens, adapter }: PinOrder): Promise<PinState> {
    const none: PinState = { memoryTokens: 0, diskTokens: 0 };
    try {
      const engine = this.#identity;
      const keys = await this.links.keysOf(organizationId);
      if (engine === null || keys === null) return none;
      const text = { tokens, spans: [], adapter };
      const pages = Math.floor((tokens.length - 1) / PAGE_TOKENS);
      const stored = this.links.store.find(engine, keys, text, pages).length;
      this.unpin(pin); // in the same event-loop turn, so that the pages are held again before the next engine step
      const id = this.#nextImport++;
      this.#pins.set(pin, id);
      const ask = (): void => this.#tier.openImport(id, organization, text, true);
      const held = ((await this.#answer(`opened ${id}`, ask)) as Uint8Array | null) ?? new Uint8Array();
      // A model with recurrent state can continue only from a page that has a snapshot of the state.
      const needsSnapshot = this.native.pageSizes.snapshot > 0;
      const last = held.at(-1) ?? 0;
      const memory = needsSnapshot && (last & HAS_SNAPSHOT) === 0 ? 0 : held.length;
      return { memoryTokens: memory * PAGE_TOKENS, diskTokens: stored * PAGE_TOKENS };
    } catch (error) {
      if (!this.#closed) this.links.report('pin', error);
      return none;
    }
  }
  unpin(pin: string): void {
    const id = this.#pins.get(pin);
    if (id !== undefined) this.#tier.closeImport(id);
    this.#pins.delete(pin);
  }
  /**
   * Must be called when pages may have been dropped from the store. The engine exports such pages again when they are
   * next used.
   */
  forget(): void {
    this.#tier.forget();
  }

  /** Waits until all pages that the engine has exported are stored, for at most `withinMs`. */
  async drain(withinMs: number): Promise<void> {
    for (const end = performance.now() + withinMs; this.pagesWaiting > 0 && performance.now() < end; )
      await sleep(LOOK_MS);
  }

  /** Closes the engine. Drops exported pages whose writing has not started. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#tier.close();
    for (const { reject } of this.#answers.values()) reject(new Error('the engine was closed'));
    await this.#pendingExports;
    await this.native.close();
  }

  /** Calls `ask` and waits for the engine's response. Rejects with any error that `ask` throws. */
  #answer(name: string, ask: () => void): Promise<Answer> {
    if (this.#closed) return Promise.reject(new Error('the engine was closed'));
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#answers.set(name, { resolve, reject });
      ask();
    });
    const timer = setTimeout(() => this.#answers.get(name)?.reject(new Error('the engine does not answer')), ANSWER_MS);
    return answer.finally(() => {
      clearTimeout(timer);
      this.#answers.delete(name);
    });
  }
}

type Wanted = readonly [index: number, parts: readonly PagePart[]];
type Sizes = Readonly<Record<PagePart, number>>;

/** Splits pages into batches of about PART_BYTES. */
function inBatches(pages: readonly Wanted[], sizes: Sizes): Wanted[][] {
  const batches: Wanted[][] = [];
  let bytes = PART_BYTES;
  for (const page of pages) {
    if (bytes >= PART_BYTES) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1)!.push(page);
    bytes += bytesOfParts(page, sizes);
  }
  return batches;
}

const missed = (reason: MissReason): ImportResult => ({ tokens: 0, import: null, miss: { reason, at: null } });

const missOf = (why: ReturnType<PageStore['whyMissing']>): Miss =>
  typeof why === 'string' ? { reason: why, at: null } : why;

const bytesOf = (page: PageParts): number => PARTS.reduce((sum, part) => sum + (page[part]?.length ?? 0), 0);

const bytesOfParts = ([, parts]: Wanted, sizes: Sizes): number => parts.reduce((sum, part) => sum + sizes[part], 0);

/** All inputs that affect the bits of a page, except the page's own content. */
function engineKey(files: Buffer, native: NativeEngine, options: LoadOptions): Buffer {
  const { arithmetic, batchInvariant, cublaslt, kvType, maxBatchTokens, quantize, visionPrecision } = options;
  const { visionMaxPixels, visionMaxTiles, visionResize } = options;
  const fixed = batchInvariant === false || arithmetic === 'fast';
  return createHash('sha256')
    .update(files)
    .update(
      JSON.stringify([
        native.cacheIdentity,
        native.fileHash, // of what was loaded: the file may have been replaced before `files` was computed
        arithmetic ?? null,
        batchInvariant ?? null,
        fixed ? [cublaslt ?? null, maxBatchTokens ?? null] : null,
        kvType ?? null,
        quantize ?? null,
        visionPrecision ?? null,
        visionMaxPixels ?? null,
        visionMaxTiles ?? null,
        visionResize ?? null,
      ]),
    )
    .digest();
}
