// Models that operators download from a hub while the server is running. A download runs on the thread that received
// the request. Every thread can list and stop all downloads. Finished downloads are kept in memory for a while.

import { newAccountId } from '../../shared/ids.js';
import { apiError } from '../../shared/errors.js';
import type { Hub } from '../../hub/hub.js';
import { HubError } from '../../hub/hub-error.js';
import { parseModelRef, showModelRef } from '../../hub/model-ref.js';
import type { ModelRef } from '../../hub/model-ref.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { Log } from '../../telemetry/types.js';
import type { ModelPull } from '../../shared/wire/models.js';

/** Maximum number of concurrent downloads per thread. They share disk and network bandwidth. */
const MAX_RUNNING = 2;
const MAX_REMEMBERED = 20;

interface Running {
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

export class Pulls {
  readonly #pulls = new Map<string, ModelPull>();
  readonly #running = new Map<string, Running>();
  readonly #stopListening: (() => void)[];

  constructor(
    private readonly hub: Hub,
    private readonly bus: ThreadBus,
    private readonly log: Log,
  ) {
    this.#stopListening = [
      bus.on('pulls.list', () => [...this.#pulls.values()]),
      bus.on('pulls.stop', ({ id }) => this.#stop(id)),
    ];
  }

  /** Downloads on all threads, newest first. */
  async list(): Promise<ModelPull[]> {
    const others = await this.bus.ask('pulls.list', {});
    return [...this.#pulls.values(), ...others.flat()]
      .sort((a, b) => (a.started_at < b.started_at ? 1 : -1))
      .slice(0, MAX_REMEMBERED);
  }

  /** A download that this thread started. Null if it is no longer in memory. */
  get(id: string): ModelPull | null {
    return this.#pulls.get(id) ?? null;
  }

  /** Starts a download. Throws ApiError 422 if the name is invalid, or 503. */
  start(model: string): ModelPull {
    let ref: ModelRef;
    try {
      ref = parseModelRef(model);
    } catch (error) {
      throw apiError('invalid_value', (error as Error).message, 'model');
    }
    if (this.#running.size >= MAX_RUNNING)
      throw apiError(
        'capacity_exhausted',
        `${MAX_RUNNING} downloads are already running. Wait for one to finish, or stop it.`,
        null,
      );
    const pull: ModelPull = {
      id: newAccountId('pul'),
      model: showModelRef(ref),
      state: 'running',
      quantization: null,
      file: null,
      bytes: 0,
      total_bytes: null,
      error: null,
      started_at: new Date().toISOString(),
      ended_at: null,
    };
    this.#pulls.set(pull.id, pull);
    this.#forget();
    const stop = new AbortController();
    this.#running.set(pull.id, { stop, done: this.#run(pull.id, ref, stop.signal) });
    return pull;
  }

  /** Idempotent. Works for a download on any thread. Partial files stay on disk. */
  stop(id: string): void {
    this.#stop(id);
    this.bus.publish('pulls.stop', { id });
  }

  async close(): Promise<void> {
    for (const stop of this.#stopListening) stop();
    const running = [...this.#running.values()];
    for (const { stop } of running) stop.abort();
    await Promise.all(running.map(({ done }) => done));
  }

  #stop(id: string): void {
    this.#running.get(id)?.stop.abort();
  }

  async #run(id: string, ref: ModelRef, signal: AbortSignal): Promise<void> {
    const change = (more: Partial<ModelPull>): void => {
      this.#pulls.set(id, { ...(this.#pulls.get(id) as ModelPull), ...more });
    };
    const model = showModelRef(ref);
    this.log.info({ model }, `fetching ${model}`);
    try {
      const { quantization, bytes } = await this.hub.pull(ref, {
        signal,
        onProgress: (at) =>
          change({ quantization: at.quantization, file: at.file, bytes: at.bytes, total_bytes: at.total }),
        onRetry: (reason, waitMs) =>
          this.log.warn({ model, reason, wait_ms: waitMs }, `${model}: download interrupted; will retry`),
      });
      change({ state: 'done', quantization, bytes, total_bytes: bytes, file: null });
      this.log.info({ model, bytes }, `${model}: download complete`);
    } catch (error) {
      const stopped = error instanceof HubError && error.failure === 'cancelled';
      const message = error instanceof Error ? error.message : String(error);
      change(stopped ? { state: 'stopped' } : { state: 'failed', error: message });
      if (!stopped) this.log.warn({ model, reason: message }, `${model}: download failed`);
    } finally {
      change({ ended_at: new Date().toISOString() });
      this.#running.delete(id);
    }
  }

  #forget(): void {
    for (const [id, { state }] of this.#pulls) {
      if (this.#pulls.size <= MAX_REMEMBERED) return;
      if (state !== 'running') this.#pulls.delete(id);
    }
  }
}
