// How the threads of one server tell each other things. Values cross as structured clones. With one thread
// nothing crosses: LocalBus. Each thread owns its own end and uses it on its own event loop only.

import type { LiveCollected } from './live-collected.js';
import type { ModelPull } from './model-pull.js';
import type { StoredEvent } from './stored-event.js';

/** For each topic, its message and the answer of each asked thread. All messages between threads are listed here. */
export interface BusTopics {
  /** Something of accounts has changed: what was looked up is to be read again. */
  'accounts.changed': { message: { organizationId: string | null }; answer: void };
  /** An operator changed limits, caps or models: read again. */
  'operator.changed': { message: Record<string, never>; answer: void };
  /** A thread has begun to load a model that rested, or has given one up (src/engine/residency.ts): the others do so too. */
  'model.resides': { message: { model: string; rests: boolean }; answer: void };
  /** The models that the asked thread fetches or has fetched (src/dashboard/admin/pulls.ts). */
  'pulls.list': { message: Record<string, never>; answer: readonly ModelPull[] };
  'pulls.stop': { message: { id: string }; answer: void };
  /** Stops the tuning run if the asked thread has begun it (src/dashboard/admin/tunings.ts). */
  'tuning.stop': { message: { id: string }; answer: void };
  /** Cancels the background response if it runs on the asked thread; true when that is done and it is stored. */
  'response.cancel': { message: { id: string }; answer: boolean };
  /** Whether the response is being generated on the asked thread; `foreground`: by a client that waits for it. */
  'response.running': { message: { organizationId: string; id: string; foreground: boolean }; answer: boolean };
  /** New events of a background response are in its log; `ended`: these were the last, `end` the very last. */
  'response.logged': { message: { id: string; ended: boolean; end?: readonly StoredEvent[] }; answer: void };
  /** The data folder's database takes no writes any more (src/storage/lmdb/writes.ts): no thread acknowledges one from here on. */
  'storage.failed': { message: { reason: string }; answer: void };
  /** Metrics of the asked thread, as prom-client's JSON. */
  'metrics.collect': { message: Record<string, never>; answer: unknown };
  /** A live sample, encoded, for those who watch on the other threads (src/operator/live-view). */
  'live.sample': { message: { sample: string }; answer: void };
  /** What the asked thread has counted since the last time (src/operator/live-view). */
  'live.collect': { message: Record<string, never>; answer: LiveCollected };
}
export type Topic = keyof BusTopics;

export interface ThreadBus {
  /** 0 is the main thread. */
  readonly index: number;
  /** Threads that answer requests. */
  readonly threads: number;
  /** Nobody else answers requests on what this thread stores: no other thread, and no other process. */
  readonly alone: boolean;
  /** To every other thread; not to this one. */
  publish<T extends Topic>(topic: T, message: BusTopics[T]['message']): void;
  /** Asks every other thread; those that have not answered in `timeoutMs` (1,000) are left out. */
  ask<T extends Topic>(
    topic: T,
    message: BusTopics[T]['message'],
    timeoutMs?: number,
  ): Promise<BusTopics[T]['answer'][]>;
  /** What this thread does about a topic. Returns how to stop. Several may listen; the last one's answer is sent. */
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
