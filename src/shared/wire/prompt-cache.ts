// The prompt cache in the operator API, on the status socket and on the dashboard: what it holds, and pinned prompts.

import type { ErrorCode } from '../error-codes.js';

/** Totals since the server started. */
export interface CacheUseTotals {
  readonly requests: number;
  readonly prompt_tokens: number;
  /** Prompt tokens whose KV pages were in memory, and that were read from disk. */
  readonly memory_tokens: number;
  readonly disk_tokens: number;
  readonly read_bytes: number;
  readonly written_bytes: number;
  /** Estimated time that computing the cached tokens would have taken. */
  readonly saved_s: number;
}

export interface CacheOnDisk {
  readonly pages: number;
  readonly bytes: number;
}

export interface CachedOrganization {
  readonly id: string;
  /** Null if it was deleted. */
  readonly name: string | null;
  readonly disk: CacheOnDisk;
  readonly use: CacheUseTotals;
}

export interface CachedModel {
  /** Public names; models that share a file share one entry. Empty if the model is not served any more. */
  readonly names: readonly string[];
  readonly file: string;
  /** Pages of the KV cache in memory; null if the model is not loaded. `cached_pages`: those that no request uses. */
  readonly memory: { readonly pages: number; readonly free_pages: number; readonly cached_pages: number } | null;
  readonly disk: CacheOnDisk;
  readonly use: CacheUseTotals;
  /** The organizations with the most prompt tokens, at most 50. */
  readonly organizations: readonly CachedOrganization[];
}

export interface PinnedPrompt {
  readonly id: string;
  readonly model: string;
  readonly organization: string;
  readonly organization_name: string | null;
  readonly created_at: string;
  /** The first characters of the prompt. */
  readonly start: string;
  /** Number of tokens that are pinned; null if it is not known because the model has not been loaded since the start. */
  readonly tokens: number | null;
  readonly memory_tokens: number;
  readonly disk_tokens: number;
  /** waiting: until its model is loaded. partial: not all of its pages are in memory and on disk. */
  readonly state: 'pinned' | 'partial' | 'waiting' | 'failed';
  readonly problem: string | null;
}

export interface PromptCacheState {
  readonly object: 'prompt_cache';
  /** Null if no KV pages are kept on disk; then prompts cannot be pinned, and `use` is not counted. */
  readonly disk: { readonly mode: 'stored' | 'all'; readonly bytes: number; readonly max_bytes: number } | null;
  readonly models: readonly CachedModel[];
  readonly pinned: readonly PinnedPrompt[];
  readonly max_pinned: number;
}

export interface PromptCacheCleared {
  readonly object: 'prompt_cache.cleared';
  /** The models whose cache in memory was emptied. */
  readonly models: readonly string[];
  readonly disk_records: number;
  readonly disk_bytes: number;
}

/** Null: all. Models and organizations by name or ID. */
export interface PromptCacheClear {
  readonly model: string | null;
  readonly organization: string | null;
}

export interface PromptPin {
  readonly model: string;
  /** Null: the server's first organization. */
  readonly organization: string | null;
  /** A system prompt. */
  readonly prompt: string;
}

/** A request to the thread that has the prompt cache. */
export type PromptCacheCommand =
  | { readonly type: 'state' }
  | ({ readonly type: 'clear' } & PromptCacheClear)
  | ({ readonly type: 'warm' } & PromptPin)
  | { readonly type: 'unpin'; readonly id: string };

export type PromptCacheAnswer =
  | { readonly ok: true; readonly result: PromptCacheState | PromptCacheCleared | PinnedPrompt }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string; readonly param: string | null };

/** Maximum length of a pinned prompt, in characters. */
export const MAX_PINNED_CHARACTERS = 400_000;
