// The storage tier's worker thread: owns the page store, is connected to all engines of the process, and serves the
// threads that handle requests. Started by kv-tier.ts.
import { BroadcastChannel, parentPort, workerData } from 'node:worker_threads';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LoadOptions } from '../addon-types.js';
import { makeFolder } from '../../shared/make-folder.js';
import { loadAddon } from '../load-addon.js';
import { AttachedEngine, type EngineLinks } from './attached-engine.js';
import { CacheTally } from './cache-tally.js';
import { FileHashes } from './file-hashes.js';
import { labelOf, keptForPin } from './labels.js';
import {
  answerChannel,
  questionChannel,
  type StoredPages,
  type ErasedPages,
  type TierAnswer,
  type TierKey,
  type TierNews,
  type TierOrder,
  type TierQuestion,
  type TierReport,
  type TierStart,
} from './messages.js';
import { organizationKeys, type OrganizationKeys } from './page-content.js';
import { nodeFiles } from './page-files.js';
import { PageStore } from './page-store.js';

const SWEEP_MS = 10_000;
const FORGET_MS = 5_000;
/** How long an organization's key is kept in this thread's memory. */
const KEY_MS = 60_000;

/** An engine key and the file from which it was computed. Pages are erased after the file has been deleted. */
interface KnownEngine {
  readonly path: string;
  readonly files: string;
  /** Estimated prefill time per prompt token, in ms; 0 = unknown. */
  tokenMs?: number;
}

class TierWorker {
  readonly #engines = new Map<string, AttachedEngine>();
  readonly #files = new Map<string, string>(); // paths of model files, by the engine's key within this process
  readonly #tally = new CacheTally();
  readonly #answerTo = new Map<number, BroadcastChannel>();
  readonly #questions: BroadcastChannel;
  #channelsClosed = false;
  readonly #keys = new Map<string, { keys: Promise<OrganizationKeys | null>; at: number }>();
  readonly #askedKeys = new Map<string, ((key: Uint8Array | null) => void)[]>();
  readonly #hashes: FileHashes;
  readonly #known: Map<string, KnownEngine>;
  readonly #stopped = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  #hits = 0;
  #misses = 0;
  #importedTokens = 0;
  #savedMs = 0;
  #lost = 0; // records gone from the store when the engines were last told
  #skipped = 0; // pages skipped by engines that have been detached

  constructor(
    private readonly start: TierStart,
    private readonly store: PageStore,
    private readonly tell: (news: TierNews) => void,
  ) {
    this.#hashes = new FileHashes(join(start.folder, 'file-hashes.json'));
    this.#known = new Map(Object.entries(readJson(join(start.folder, 'engines.json')) as Record<string, KnownEngine>));
    this.#questions = new BroadcastChannel(questionChannel(start.process));
    this.#questions.onmessage = (event) => void this.#question((event as { data: TierQuestion }).data);
    this.#timers.push(
      setInterval(() => this.#sweep(), SWEEP_MS),
      setInterval(() => this.#forget(), FORGET_MS),
    );
    this.#sweep();
  }

  async order(order: TierOrder | TierKey): Promise<void> {
    if (order.type === 'organization key') {
      for (const resolve of this.#askedKeys.get(order.organization) ?? []) resolve(order.key);
      this.#askedKeys.delete(order.organization);
      return;
    }
    let answer: unknown = null;
    try {
      answer = await this.#do(order);
    } catch (error) {
      this.#report(order.type, error);
    }
    this.tell({ type: 'done', number: order.number, answer });
  }

  async #do(order: TierOrder): Promise<unknown> {
    switch (order.type) {
      case 'attach':
        return this.#attach(order.engine.key, order.engine.file, order.engine.options);
      case 'detach': {
        const engine = this.#engines.get(order.key);
        if (engine === undefined) return null;
        await engine.drain(order.withinMs);
        this.#remember(engine);
        this.#engines.delete(order.key);
        this.#skipped += engine.skippedPages;
        return engine.close();
      }
      case 'gone':
        return this.store.eraseLabels(order.labels);
      case 'labels':
        return this.store.labels(order.olderThanS);
      case 'clear':
        return this.#clear(order.organization, order.file);
      case 'erase organization':
        return this.#eraseOrganization(order.organization);
      case 'organizations':
        return this.store.organizations();
      case 'stored':
        return this.#stored();
      case 'pin':
        return (await this.#engines.get(order.engine)?.pin(order)) ?? null;
      case 'unpin':
        for (const engine of this.#engines.values()) engine.unpin(order.pin);
        return this.store.eraseLabels([labelOf(order.organizationId, keptForPin(order.pin))]);
      case 'report':
        return this.#state();
      case 'close':
        return this.#close(order.withinMs);
    }
  }

  async #attach(key: string, file: string, options: LoadOptions): Promise<void> {
    const native = await loadAddon().load(key, file, options, () => undefined);
    const links: EngineLinks = {
      store: this.store,
      minTokens: this.start.minTokens,
      backlogBytes: this.start.backlogBytes,
      keysOf: (id) => this.#keysOf(id),
      report: (action, error) => this.#report(action, error),
      read: (organization, bytes) => this.#tally.read(file, organization, bytes),
      written: (organization, bytes) => this.#tally.written(file, organization, bytes),
    };
    this.#files.set(key, file);
    const engine = new AttachedEngine(native, options, links);
    this.#engines.set(key, engine);
    void this.#identify(engine, file, options);
  }

  async #identify(engine: AttachedEngine, file: string, { draftPath, visionPath }: LoadOptions): Promise<void> {
    const from = performance.now();
    try {
      // A draft file may be an EAGLE-3 head, whose layers are stored in the same pages.
      const paths = [file, ...[draftPath, visionPath].filter((path) => path !== undefined)];
      const hash = await this.#hashes.ofModel(paths, this.#stopped.signal);
      engine.identify(hash);
      this.tell({ type: 'ready', model: file, ms: performance.now() - from });
      const files = hash.toString('hex');
      for (const [other, known] of this.#known)
        if (known.path === file && known.files !== files) await this.#eraseEngine(other);
      const key = engine.key!.toString('hex');
      engine.knownTokenMs = this.#known.get(key)?.tokenMs ?? 0;
      this.#known.set(key, { path: file, files, tokenMs: engine.knownTokenMs });
      this.#saveKnown();
    } catch (error) {
      if (!this.#stopped.signal.aborted) this.#report('hash', error);
    }
  }

  async #eraseEngine(key: string): Promise<void> {
    await this.store.eraseWhere({ engines: [Buffer.from(key, 'hex')] });
    this.#known.delete(key);
  }

  async #eraseOrganization(id: string): Promise<void> {
    this.#keys.delete(id);
    await this.store.eraseWhere({ organization: id });
  }

  #clear(organization: string | null, file: string | null): Promise<ErasedPages> {
    return this.store.eraseWhere({
      keepPinned: true,
      ...(organization === null ? {} : { organization }),
      ...(file === null ? {} : { engines: this.#enginesOf(file).map((key) => Buffer.from(key, 'hex')) }),
    });
  }

  /** Returns the keys of all engines that use this model file. */
  #enginesOf(file: string): string[] {
    return [...this.#known].flatMap(([key, { path }]) => (path === file ? [key] : []));
  }

  #stored(): StoredPages[] {
    return this.store.usage().map(({ engine, ...usage }) => ({ file: this.#known.get(engine)?.path ?? '', ...usage }));
  }

  /** Returns the estimated prefill time per token of a model file in ms, or 0 if it is not known. */
  #tokenMs(file: string): number {
    for (const [key, engine] of this.#engines)
      if (this.#files.get(key) === file && engine.tokenMs > 0) return engine.tokenMs;
    return 0;
  }

  /** Saves the estimate for the next process. */
  #remember(engine: AttachedEngine): void {
    const known = this.#known.get(engine.key?.toString('hex') ?? '');
    if (known !== undefined) known.tokenMs = engine.tokenMs;
    this.#saveKnown();
  }

  #saveKnown(): void {
    try {
      writeFileSync(join(this.start.folder, 'engines.json'), JSON.stringify(Object.fromEntries(this.#known)), {
        mode: 0o600,
      });
    } catch (error) {
      this.#report('write', error);
    }
  }

  async #question(question: TierQuestion): Promise<void> {
    if (question.type === 'release') {
      this.#engines.get(question.engine)?.release(question.import);
    } else if (question.type === 'erase') {
      await this.store.eraseLabels(question.labels).catch((error: unknown) => this.#report('erase', error));
    } else if (question.type === 'erase organization') {
      await this.#eraseOrganization(question.organizationId).catch((error: unknown) => this.#report('erase', error));
    } else if (question.type === 'started') {
      const { engine, organizationId, promptTokens, cachedTokens, diskTokens } = question;
      const file = this.#files.get(engine);
      const tokens = { prompt: promptTokens, cached: cachedTokens, disk: diskTokens };
      if (file !== undefined) this.#tally.started(file, organizationId, tokens);
    } else {
      const result = (await this.#engines.get(question.engine)?.prefetch(question)) ?? {
        tokens: 0,
        import: null,
        miss: { reason: 'model unknown' as const, at: null },
      };
      if (result.tokens > 0) {
        this.#hits++;
        this.#importedTokens += result.tokens;
        const engine = this.#engines.get(question.engine);
        if (engine !== undefined) engine.uncountedTokens += result.tokens;
      } else if (result.miss?.reason !== 'in memory' && result.miss?.reason !== 'below minimum') {
        this.#misses++;
      }
      const answer: TierAnswer = { number: question.number, ...result };
      if (!this.#channelsClosed) this.#channelTo(question.from).postMessage(answer);
    }
  }

  #channelTo(thread: number): BroadcastChannel {
    let channel = this.#answerTo.get(thread);
    if (channel === undefined)
      this.#answerTo.set(thread, (channel = new BroadcastChannel(answerChannel(this.start.process, thread))));
    return channel;
  }

  #keysOf(id: string): Promise<OrganizationKeys | null> {
    const known = this.#keys.get(id);
    if (known !== undefined && known.at > performance.now() - KEY_MS) return known.keys;
    const keys = new Promise<Uint8Array | null>((resolve) => {
      this.#askedKeys.set(id, [...(this.#askedKeys.get(id) ?? []), resolve]);
      this.tell({ type: 'key', organization: id });
    }).then((key) => (key === null ? null : organizationKeys(id, key)));
    this.#keys.set(id, { keys, at: performance.now() });
    return keys;
  }

  /** Erases expired pages, and the pages of models whose file no longer exists. */
  #sweep(): void {
    void this.store.eraseExpired().catch((error: unknown) => this.#report('erase', error));
    for (const [key, { path }] of this.#known)
      if (!existsSync(path))
        void this.#eraseEngine(key).then(
          () => this.#saveKnown(),
          (error: unknown) => this.#report('erase', error),
        );
  }

  /** An engine exports a page only once, so it must be notified when pages have been removed from the store. */
  #forget(): void {
    const { evicted, erased, skipped, dropped } = this.store.counts;
    const lost = evicted + erased + skipped + Object.values(dropped).reduce((sum, count) => sum + count, 0);
    if (lost === this.#lost) return;
    this.#lost = lost;
    for (const engine of this.#engines.values()) engine.forget();
  }

  #state(): TierReport {
    let skippedPages = this.#skipped;
    let pagesWaiting = 0;
    for (const engine of this.#engines.values()) {
      skippedPages += engine.skippedPages;
      pagesWaiting += engine.pagesWaiting;
      // The prefill time per token is not known yet for a new engine.
      const { tokenMs } = engine;
      if (tokenMs === 0) continue;
      this.#savedMs += engine.uncountedTokens * tokenMs;
      engine.uncountedTokens = 0;
    }
    return {
      counts: this.store.counts,
      bytes: this.store.bytes,
      records: this.store.records,
      maxBytes: this.store.maxBytes,
      hits: this.#hits,
      misses: this.#misses,
      importedTokens: this.#importedTokens,
      savedMs: this.#savedMs,
      skippedPages,
      pagesWaiting,
      uses: this.#tally.uses((file) => this.#tokenMs(file)),
    };
  }

  async #close(withinMs: number): Promise<void> {
    this.#stopped.abort();
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all([...this.#engines.values()].map((engine) => engine.drain(withinMs)));
    for (const engine of this.#engines.values()) this.#remember(engine);
    await Promise.all([...this.#engines.values()].map((engine) => engine.close()));
    this.#engines.clear();
    this.#channelsClosed = true;
    this.#questions.close();
    for (const channel of this.#answerTo.values()) channel.close();
    await this.store.close();
  }

  #report(action: string, error: unknown): void {
    this.tell({ type: 'problem', action, message: error instanceof Error ? error.message : String(error) });
  }
}

function readJson(path: string): object {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as object;
  } catch {
    return {};
  }
}

async function run(): Promise<void> {
  const port = parentPort!;
  const start = workerData as TierStart;
  const tell = (news: TierNews): void => port.postMessage(news);
  makeFolder(start.folder, 0o700);
  const store = await PageStore.open({
    folder: start.folder,
    files: nodeFiles,
    maxBytes: start.maxBytes,
    encrypts: start.encrypts,
    report: (action, error) =>
      tell({ type: 'problem', action, message: error instanceof Error ? error.message : String(error) }),
  });
  const worker = new TierWorker(start, store, tell);
  port.on('message', (order: TierOrder | TierKey) => {
    void worker.order(order).then(() => {
      if (order.type === 'close') port.close();
    });
  });
  tell({ type: 'done', number: 0, answer: null });
}

await run();
