// Types of the prompt cache's state and pinned prompts in the operator API, on the status socket and on the dashboard.

import type { ErrorCode } from '../error-codes.js';

/** Prompt-cache totals since the server started. */
export interface CacheUseTotals {
  readonly requests: number;
  readonly prompt_tokens: number;
  /**
   * Number of prompt tokens whose KV pages were in memory. `disk_tokens`: number of prompt tokens whose KV pages were
   * read from disk.
   */
  readonly memory_tokens: number;
  readonly disk_tokens: number;
  readonly read_bytes: number;
  readonly written_bytes: number;
  /** Estimated prefill time that the cached tokens saved, in seconds. */
  readonly saved_s: number;
}

export interface CacheOnDisk {
  readonly pages: number;
  readonly bytes: number;
}

export interface CachedOrganization {
  readonly id: string;
  /** Null if the organization was deleted. */
  readonly name: string | null;
  readonly disk: CacheOnDisk;
  readonly use: CacheUseTotals;
}

export interface CachedModel {
  /** Public names of the models that use this file. Empty if none is served any longer. */
  readonly names: readonly string[];
  readonly file: string;
  /**
   * KV cache in memory: total number of pages, number of free pages, and number of cached pages that no request uses.
   * Null if the model is not loaded.
   */
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
  /** The first characters of the prompt, for display. */
  readonly start: string;
  /** Number of tools that are pinned with the prompt. */
  readonly tools: number;
  /** Number of pinned tokens. Null if the model has not been loaded since the server started. */
  readonly tokens: number | null;
  readonly memory_tokens: number;
  readonly disk_tokens: number;
  /** waiting: the model is not loaded. partial: some pages are missing in memory or on disk. */
  readonly state: 'pinned' | 'partial' | 'waiting' | 'failed';
  readonly problem: string | null;
}

export interface PromptCacheState {
  readonly object: 'prompt_cache';
  /** Null if KV pages are not kept on disk. In that case, prompts cannot be pinned and `use` is not counted. */
  readonly disk: { readonly mode: 'stored' | 'all'; readonly bytes: number; readonly max_bytes: number } | null;
  readonly models: readonly CachedModel[];
  readonly pinned: readonly PinnedPrompt[];
  readonly max_pinned: number;
}

export interface PromptCacheCleared {
  readonly object: 'prompt_cache.cleared';
  /** Public names of the models whose cache in memory was cleared. */
  readonly models: readonly string[];
  readonly disk_records: number;
  readonly disk_bytes: number;
}

/** What to clear: a model by public name, and an organization by ID or name. Null selects all. */
export interface PromptCacheClear {
  readonly model: string | null;
  readonly organization: string | null;
}

export interface PromptPin {
  readonly model: string;
  /** Null selects the server's first organization. */
  readonly organization: string | null;
  /** The system prompt to pin. Null if `request` is given. */
  readonly prompt: string | null;
  /** The shared part of a chat completions request: system messages, tools and prompt settings. */
  readonly request: Readonly<Record<string, unknown>> | null;
}

/** A command for the thread that runs the prompt cache. */
export type PromptCacheCommand =
  | { readonly type: 'state' }
  | ({ readonly type: 'clear' } & PromptCacheClear)
  | ({ readonly type: 'warm' } & PromptPin)
  | { readonly type: 'unpin'; readonly id: string };

export type PromptCacheAnswer =
  | { readonly ok: true; readonly result: PromptCacheState | PromptCacheCleared | PinnedPrompt }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string; readonly param: string | null };

/** Maximum length of a pinned prompt, or of a pinned request as JSON, in characters. */
export const MAX_PINNED_CHARACTERS = 400_000;
