// The message bus between the threads of one server. Values are passed between threads as structured clones. With a
// single thread, LocalBus is used and no messages are passed. Each thread owns its end of the bus and uses it only on
// its own event loop.

import type { LiveCollected } from './live-collected.js';
import type { SpentBudgets } from './spent-budgets.js';
import type { AlertMeasure } from './wire/alerts.js';
import type { PromptCacheAnswer, PromptCacheCommand } from './wire/prompt-cache.js';
import type { ModelPull } from './wire/models.js';
import type { StoredEvent } from './stored-event.js';

/**
 * For each topic: its message, and the answer from each queried thread. All messages between threads are listed
 * here.
 */
export interface BusTopics {
  /** Accounts have changed, so receivers must repeat cached lookups. */
  'accounts.changed': { message: { organizationId: string | null }; answer: void };
  /** An operator has changed limits, caps or models, so receivers must read them again. */
  'operator.changed': { message: Record<string, never>; answer: void };
  /**
   * A thread has started loading an unloaded model, or has unloaded one (src/engine/model-lifecycle.ts). The other
   * threads must do the same.
   */
  'model.lifecycle': { message: { model: string; unloaded: boolean }; answer: void };
  /**
   * The state of a LoRA adapter on the primary thread; null if unknown. Only the primary thread answers
   * (src/engine/pool-adapter.ts).
   */
  'adapter.state': {
    message: { name: string };
    answer: 'absent' | 'loading' | 'ready' | 'failed' | null;
  };
  /** The spent budgets that block requests (src/usage/spent-budget-watch.ts). */
  'budgets.spent': { message: SpentBudgets; answer: void };
  /** Requests the alert measurements; only the primary thread answers (src/server/modules/alerts.ts). */
  'alerts.measures': { message: Record<string, never>; answer: readonly AlertMeasure[] };
  /** The models that the queried thread is downloading or has downloaded (src/dashboard/admin/pulls.ts). */
  'pulls.list': { message: Record<string, never>; answer: readonly ModelPull[] };
  'pulls.stop': { message: { id: string }; answer: void };
  /** Stops the tuning run if the queried thread started it (src/dashboard/admin/tunings.ts). */
  'tuning.stop': { message: { id: string }; answer: void };
  /**
   * Cancels the background response if it is running on the queried thread. Answers true once the response has been
   * cancelled and its state has been stored.
   */
  'response.cancel': { message: { id: string }; answer: boolean };
  /** Whether the queried thread is generating the response. `foreground`: only if a client is waiting for it. */
  'response.running': { message: { organizationId: string; id: string; foreground: boolean }; answer: boolean };
  /**
   * New events of a background response are in its log. `ended`: these were the last events. `end`: the final events
   * themselves.
   */
  'response.logged': { message: { id: string; ended: boolean; end?: readonly StoredEvent[] }; answer: void };
  /**
   * The data directory's database no longer accepts writes (src/storage/lmdb/writes.ts). After that, no thread
   * acknowledges writes.
   */
  'storage.failed': { message: { reason: string }; answer: void };
  /** The queried thread's metrics, in prom-client's JSON format. */
  'metrics.collect': { message: Record<string, never>; answer: unknown };
  /** An encoded live sample, for viewers on the other threads (src/dashboard/admin/live-view.ts). */
  'live.sample': { message: { sample: string }; answer: void };
  /** The queried thread's counts since the last sample (src/dashboard/admin/live-view.ts). */
  'live.collect': { message: Record<string, never>; answer: LiveCollected };
  /** Webhooks are due. Only the primary thread sends them. */
  'webhooks.due': { message: Record<string, never>; answer: void };
  /** Runs an operator's prompt-cache command. Only the primary thread answers. */
  'prompt_cache.command': { message: PromptCacheCommand; answer: PromptCacheAnswer };
}
export type Topic = keyof BusTopics;

export interface ThreadBus {
  /** 0 is the main thread. */
  readonly index: number;
  /** Number of threads that serve requests. */
  readonly threads: number;
  /** Whether no other thread or process serves requests on this thread's stored data. */
  readonly alone: boolean;
  /** Sends to every other thread, but not to this one. */
  publish<T extends Topic>(topic: T, message: BusTopics[T]['message']): void;
  /** Queries every other thread. Threads that do not answer within `timeoutMs` (default: 1,000) are omitted. */
  ask<T extends Topic>(
    topic: T,
    message: BusTopics[T]['message'],
    timeoutMs?: number,
  ): Promise<BusTopics[T]['answer'][]>;
  /**
   * Registers this thread's listener for a topic. Returns a function that removes it. If there are several listeners,
   * the last one's answer is sent when all of them have finished.
   */
  on<T extends Topic>(
    topic: T,
    listener: (message: BusTopics[T]['message']) => BusTopics[T]['answer'] | Promise<BusTopics[T]['answer']>,
  ): () => void;
  close(): void;
}

/** The bus of a server with one thread. */
export class LocalBus implements ThreadBus {
  readonly index = 0;
  readonly threads = 1;
  readonly alone = true;
  publish(): void {}
  ask(): Promise<never[]> {
    return Promise.resolve([]);
  }
  on(): () => void {
    return () => undefined;
  }
  close(): void {}
}
