// Messages between the threads that serve requests and the storage tier's worker. They are passed between threads as
// structured clones.
import type { LoadOptions, PromptSpan } from '../addon-types.js';
import type { CacheUse } from './cache-tally.js';
import type { StoreCounts } from './page-store.js';
import type { RemovalReason } from './removed-pages.js';

/** Which data is written to disk; see the setting kv.disk. */
export type DiskMode = 'stored' | 'all' | 'off';

/** The worker's start parameters. */
export interface TierStart {
  readonly folder: string;
  readonly process: string;
  readonly maxBytes: number;
  readonly minTokens: number;
  readonly backlogBytes: number;
  readonly encrypts: boolean;
}

export interface AttachedEngine {
  /** Identifies the engine within the process. */
  readonly key: string;
  readonly file: string;
  readonly options: LoadOptions;
}

/** Messages from the main thread to the worker. The worker responds to each message with `done` and the same number. */
export type TierOrder = { readonly number: number } & (
  | { readonly type: 'attach'; readonly engine: AttachedEngine }
  /** Stores the engine's remaining exports, for at most `withinMs`, and releases the engine. */
  | { readonly type: 'detach'; readonly key: string; readonly withinMs: number }
  /** Reports that the given responses no longer exist. */
  | { readonly type: 'gone'; readonly labels: readonly string[] }
  /** Requests the responses whose pages were stored more than `olderThanS` seconds ago. */
  | { readonly type: 'labels'; readonly olderThanS: number }
  /**
   * Erases all pages, or only the pages of one organization or model file. Pages of pinned prompts are kept. The result
   * is an ErasedPages.
   */
  | { readonly type: 'clear'; readonly organization: string | null; readonly file: string | null }
  /** Erases all pages of a deleted organization. */
  | { readonly type: 'erase organization'; readonly organization: string }
  /** The result is the IDs of the organizations that have pages on disk. */
  | { readonly type: 'organizations' }
  /** The result is a list of StoredPages, one per model file and organization. */
  | { readonly type: 'stored' }
  /** Holds the pages of a prompt in the engine's memory. The result is a PinState. */
  | ({ readonly type: 'pin' } & PinOrder)
  | { readonly type: 'unpin'; readonly pin: string; readonly organizationId: string }
  | { readonly type: 'report' }
  | { readonly type: 'close'; readonly withinMs: number }
);

export interface PinOrder {
  readonly pin: string;
  /** Key that identifies the engine within this process. */
  readonly engine: string;
  readonly organization: number;
  readonly organizationId: string;
  /** The prompt's tokens: those in its full pages, which are pinned, and one more. */
  readonly tokens: Int32Array;
  /** AdapterInfo.cacheKey of the LoRA adapter; '' = no adapter. */
  readonly adapter: string;
}

/**
 * The number of a pinned prompt's leading tokens whose pages are in memory, and the number of those whose pages are on
 * disk.
 */
export interface PinState {
  readonly memoryTokens: number;
  readonly diskTokens: number;
}

export interface ErasedPages {
  readonly records: number;
  readonly bytes: number;
}

/** Number and size of the pages that an organization has on disk for one model file. */
export interface StoredPages {
  readonly file: string;
  readonly organization: string;
  readonly pages: number;
  readonly bytes: number;
}

/** Messages from the worker to the main thread. */
export type TierNews =
  | { readonly type: 'done'; readonly number: number; readonly answer: unknown }
  /** Requests an organization's key. The main thread responds with the order `key`. */
  | { readonly type: 'key'; readonly organization: string }
  | { readonly type: 'problem'; readonly action: string; readonly message: string }
  | { readonly type: 'ready'; readonly model: string; readonly ms: number };

/** The response to `key`: 32 bytes, or null if the organization was deleted or its key cannot be read. */
export interface TierKey {
  readonly type: 'organization key';
  readonly organization: string;
  readonly key: Uint8Array | null;
}

/** State of the tier, for metrics. */
export interface TierReport {
  readonly counts: StoreCounts;
  readonly bytes: number;
  readonly records: number;
  readonly maxBytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly importedTokens: number;
  readonly savedMs: number;
  readonly skippedPages: number;
  /** Number of pages of finished requests that have not been stored on disk yet. */
  readonly pagesWaiting: number;
  readonly uses: readonly CacheUse[];
}

/** Messages from a thread that serves requests to the worker, over a broadcast channel of the process. */
export type TierQuestion =
  | {
      readonly type: 'prefetch';
      readonly from: number;
      readonly number: number;
      readonly engine: string;
      readonly organization: number;
      readonly organizationId: string;
      readonly tokens: Int32Array;
      readonly spans: readonly PromptSpan[];
      /** AdapterInfo.cacheKey of the request's LoRA adapter; '' or absent = no adapter. */
      readonly adapter?: string;
    }
  /** The engine started a request. `diskTokens`: number of its prompt tokens that were read from disk. */
  | {
      readonly type: 'started';
      readonly engine: string;
      readonly organizationId: string;
      readonly promptTokens: number;
      readonly cachedTokens: number;
      readonly diskTokens: number;
    }
  | { readonly type: 'release'; readonly engine: string; readonly import: number }
  | { readonly type: 'erase'; readonly labels: readonly string[] }
  | { readonly type: 'erase organization'; readonly organizationId: string };

/** Why no pages, or no further pages, were read from disk for a prompt. */
export type MissReason =
  | 'never stored'
  | 'other engine'
  | RemovalReason
  | 'below minimum'
  | 'in memory'
  | 'no room'
  | 'faster to compute'
  | 'model unknown'
  | 'unreadable';

export interface Miss {
  readonly reason: MissReason;
  /** Time at which the page was removed from the store, in seconds since 1970. Null if it was not removed. */
  readonly at: number | null;
}

/** The response to `prefetch`. */
export interface TierAnswer {
  readonly number: number;
  /** Number of prompt tokens that were read from disk. */
  readonly tokens: number;
  /** The open import that holds the pages; null if none. */
  readonly import: number | null;
  /** Why not all full pages of the prompt were read from disk. Null if all were read. */
  readonly miss: Miss | null;
}

export const questionChannel = (process: string): string => `monolith kv tier ${process}`;
export const answerChannel = (process: string, thread: number): string => `monolith kv tier ${process} ${thread}`;
