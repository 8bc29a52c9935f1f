// Starts and stops the storage tier's worker, connects engines to it, and reports its state. Main thread only.
import { Worker } from 'node:worker_threads';
import type {
  AttachedEngine as Attached,
  ErasedPages,
  PinOrder,
  PinState,
  StoredPages,
  TierKey,
  TierNews,
  TierOrder,
  TierReport,
  TierStart,
} from './messages.js';
import type { TierState } from './tier-state.js';

type Order = TierOrder extends infer O ? (O extends TierOrder ? Omit<O, 'number'> : never) : never;

export interface KvTierOptions extends TierStart {
  readonly state: TierState;
  /**
   * Returns an organization's key of 32 bytes, which is created if there is none. Resolves to null if the
   * organization was deleted.
   */
  keyOf(organizationId: string): Promise<Uint8Array | null>;
  report(news: Exclude<TierNews, { type: 'done' | 'key' }>): void;
}

/** How long the worker may take to close its files after the engines have been drained. */
const CLOSE_MS = 5_000;

export class KvTier {
  readonly #worker: Worker;
  readonly #orders = new Map<number, (answer: unknown) => void>();
  readonly #opened: Promise<void>;
  #number = 0;
  #lost = false;

  constructor(private readonly options: KvTierOptions) {
    const { keyOf: _, report: __, state, ...start } = options;
    this.#worker = new Worker(new URL('./tier-worker.js', import.meta.url), {
      workerData: start,
      name: 'kv tier',
    });
    this.#worker.unref();
    this.#opened = new Promise((resolve) => {
      this.#orders.set(0, () => {
        state.set(!this.#lost);
        resolve();
      });
    });
    this.#worker.on('message', (news: TierNews) => this.#take(news));
    // If the worker fails, requests are served without the storage tier.
    this.#worker.on('error', (error) => this.#fail(error.message));
    this.#worker.on('exit', (code) => {
      if (code !== 0) this.#fail(`the worker ended with code ${code}`);
    });
  }

  /** Connects a loaded engine. After that, its pages are stored and stored pages are found. */
  async attach(engine: Attached): Promise<void> {
    await this.#order({ type: 'attach', engine });
  }
  /** Stores the engine's remaining exports, for at most `withinMs`, and releases the engine. */
  async detach(key: string, withinMs: number): Promise<void> {
    await this.#order({ type: 'detach', key, withinMs });
  }
  /** Erases pages that only the responses with these labels need. */
  async gone(labels: readonly string[]): Promise<void> {
    await this.#order({ type: 'gone', labels });
  }
  /** Returns the labels of responses whose pages were stored at least `olderThanS` seconds ago. */
  async labels(olderThanS: number): Promise<readonly string[]> {
    return ((await this.#order({ type: 'labels', olderThanS })) as readonly string[] | null) ?? [];
  }
  /** Erases all pages, or only the pages of one organization or model file. Pages of pinned prompts are kept. */
  async clear(organization: string | null, file: string | null): Promise<ErasedPages> {
    const erased = (await this.#order({ type: 'clear', organization, file })) as ErasedPages | null;
    return erased ?? { records: 0, bytes: 0 };
  }
  /** Erases all pages of a deleted organization. */
  async eraseOrganization(organization: string): Promise<void> {
    await this.#order({ type: 'erase organization', organization });
  }
  /** Returns the IDs of the organizations that have pages on disk. */
  async organizations(): Promise<readonly string[]> {
    return ((await this.#order({ type: 'organizations' })) as readonly string[] | null) ?? [];
  }
  /** Returns the number and total size of the stored pages of each model file and organization. */
  async stored(): Promise<readonly StoredPages[]> {
    return ((await this.#order({ type: 'stored' })) as readonly StoredPages[] | null) ?? [];
  }
  /** Holds the pages of a prompt in an engine's memory. Resolves to null if the engine is not connected. */
  async pin(order: PinOrder): Promise<PinState | null> {
    return (await this.#order({ type: 'pin', ...order })) as PinState | null;
  }
  /** Releases the pages of a pinned prompt, and erases its pages on disk that nothing else needs. */
  async unpin(pin: string, organizationId: string): Promise<void> {
    await this.#order({ type: 'unpin', pin, organizationId });
  }
  /** Null if the worker has exited. */
  async report(): Promise<TierReport | null> {
    return (await this.#order({ type: 'report' })) as TierReport | null;
  }

  async close(withinMs: number): Promise<void> {
    this.options.state.set(false);
    const timer = setTimeout(() => void this.#worker.terminate(), withinMs + CLOSE_MS);
    await this.#order({ type: 'close', withinMs });
    clearTimeout(timer);
    this.#lost = true;
    await this.#worker.terminate();
  }

  async #order(order: Order): Promise<unknown> {
    if (!this.#lost) await this.#opened;
    if (this.#lost) return null;
    const number = ++this.#number;
    return new Promise((resolve) => {
      this.#orders.set(number, resolve);
      this.#worker.postMessage({ ...order, number });
    });
  }

  #take(news: TierNews): void {
    if (news.type === 'done') {
      this.#orders.get(news.number)?.(news.answer);
      this.#orders.delete(news.number);
    } else if (news.type === 'key') {
      const { organization } = news;
      void this.options
        .keyOf(organization)
        .catch((error: unknown) => {
          this.options.report({ type: 'problem', action: 'key', message: String(error) });
          return null;
        })
        .then((key) => {
          const answer: TierKey = { type: 'organization key', organization, key };
          if (!this.#lost) this.#worker.postMessage(answer);
        });
    } else {
      this.options.report(news);
    }
  }

  #fail(message: string): void {
    if (this.#lost) return;
    this.#lost = true;
    this.options.state.set(false);
    this.options.report({ type: 'problem', action: 'worker', message });
    for (const answer of this.#orders.values()) answer(null);
    this.#orders.clear();
  }
}
