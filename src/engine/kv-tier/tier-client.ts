// Client of the storage tier for threads that serve requests: requests the import of a prompt's pages from the tier's
// worker, and notifies the worker of deleted responses. Event-loop thread only.
import { BroadcastChannel } from 'node:worker_threads';
import type { PromptSpan } from '../addon-types.js';
import { labelOf, KEPT_A_DAY, KEPT_ALWAYS } from './labels.js';
import {
  answerChannel,
  questionChannel,
  type DiskMode,
  type Miss,
  type TierAnswer,
  type TierQuestion,
} from './messages.js';
import type { TierState } from './tier-state.js';

/** Maximum time that a request waits for an import. After that, its prompt is prefilled. */
const WAIT_MS = 20_000;
/** How often a waiting request checks whether the worker has been lost. */
const LOOK_MS = 250;

/** Why a request's pages are kept after it finishes. `response`: the ID of the request's stored response. */
export interface Retention {
  readonly response?: string | undefined;
  /** Whether prompt_cache_retention is "24h". */
  readonly day?: boolean | undefined;
}

export interface Prefetched {
  /** Prompt tokens that were read from disk. */
  readonly tokens: number;
  /** Why no further pages were read from disk. Null if all were read or if the reason is not known. */
  readonly miss: Miss | null;
  /** Must be called when the request has started or ended. */
  release(): void;
}

export interface TierClientOptions {
  /** Identifies the process; see SharedState. */
  readonly process: string;
  /** This thread's number. */
  readonly thread: number;
  readonly mode: DiskMode;
  readonly minTokens: number;
  readonly state: TierState;
}

export interface PrefetchRequest {
  readonly organization: number;
  readonly organizationId: string;
  readonly tokens: Int32Array;
  readonly spans: readonly PromptSpan[];
  /** AdapterInfo.cacheKey of the request's LoRA adapter; '' or absent = no adapter. */
  readonly adapter?: string;
  readonly signal?: AbortSignal | undefined;
}

const nothing = (miss: Miss | null): Prefetched => ({ tokens: 0, miss, release: () => undefined });

export class TierClient {
  readonly #questions: BroadcastChannel;
  readonly #answers: BroadcastChannel;
  readonly #waiting = new Map<number, (answer: TierAnswer) => void>();
  #next = 1;

  constructor(private readonly options: TierClientOptions) {
    this.#questions = new BroadcastChannel(questionChannel(options.process));
    this.#answers = new BroadcastChannel(answerChannel(options.process, options.thread));
    this.#questions.unref();
    this.#answers.unref();
    this.#answers.onmessage = (event) => {
      const answer = (event as { data: TierAnswer }).data;
      this.#waiting.get(answer.number)?.(answer);
      this.#waiting.delete(answer.number);
    };
  }

  get minTokens(): number {
    return this.options.minTokens;
  }

  /** The label for a request's exported pages; undefined if they are not exported. */
  labelFor(organizationId: string, { response, day }: Retention): string | undefined {
    const kept =
      response ?? (day === true ? KEPT_A_DAY : undefined) ?? (this.options.mode === 'all' ? KEPT_ALWAYS : undefined);
    return kept === undefined ? undefined : labelOf(organizationId, kept);
  }

  /**
   * Reads the stored pages of a prompt into the engine's pool. Never rejects: if the worker does not respond in time,
   * no pages are imported and the engine prefills the prompt.
   */
  prefetch(engine: string, { signal, ...request }: PrefetchRequest): Promise<Prefetched> {
    if (!this.options.state.isUp) return Promise.resolve(nothing(null));
    if (request.tokens.length <= this.options.minTokens || signal?.aborted === true)
      return Promise.resolve(nothing({ reason: 'below minimum', at: null }));
    const number = this.#next++;
    return new Promise((resolve) => {
      const stop = (): void => {
        // If the worker's response arrives later, the pages that its import holds are only released.
        this.#waiting.set(number, ({ import: id }) => this.#release(engine, id));
        end();
        resolve(nothing(null));
      };
      const timer = setTimeout(stop, WAIT_MS);
      const look = setInterval(() => {
        if (!this.options.state.isUp) stop();
      }, LOOK_MS);
      const end = (): void => {
        clearTimeout(timer);
        clearInterval(look);
        signal?.removeEventListener('abort', stop);
      };
      signal?.addEventListener('abort', stop);
      this.#waiting.set(number, (answer) => {
        end();
        let released = false;
        resolve({
          tokens: answer.tokens,
          miss: answer.miss,
          release: () => {
            if (!released) this.#release(engine, answer.import);
            released = true;
          },
        });
      });
      this.#post({ type: 'prefetch', from: this.options.thread, number, engine, ...request });
    });
  }

  /** Reports that the engine has started a request, so that its prompt tokens are counted. */
  started(
    engine: string,
    organizationId: string,
    tokens: { readonly promptTokens: number; readonly cachedTokens: number; readonly diskTokens: number },
  ): void {
    if (this.options.state.isUp) this.#post({ type: 'started', engine, organizationId, ...tokens });
  }

  /** Erases pages that only these responses need. */
  erase(organizationId: string, responses: readonly string[]): void {
    this.#post({ type: 'erase', labels: responses.map((id) => labelOf(organizationId, id)) });
  }
  eraseOrganization(organizationId: string): void {
    this.#post({ type: 'erase organization', organizationId });
  }

  close(): void {
    this.#questions.close();
    this.#answers.close();
  }

  #release(engine: string, id: number | null): void {
    if (id !== null) this.#post({ type: 'release', engine, import: id });
  }
  #post(question: TierQuestion): void {
    this.#questions.postMessage(question);
  }
}
