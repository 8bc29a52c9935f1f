// Logs reports from running engines: that an engine has stopped permanently, and notes from its backend (for example,
// that GPU steps could not be captured as CUDA graphs). Engines are checked periodically; each report is logged once.

import type { Log } from '../telemetry/types.js';
import type { NativeStats } from './addon-types.js';

const LOOK_MS = 5_000;

/** An engine, its name in the log, and its statistics. */
export interface NotedEngine {
  model: string;
  engine: object;
  stats: Pick<NativeStats, 'failed' | 'note'>;
}

export class EngineNotes {
  readonly #reported = new WeakMap<object, { failed: boolean; note: string }>();
  readonly #timer: NodeJS.Timeout;

  constructor(
    private readonly engines: () => readonly NotedEngine[],
    private readonly log: Log,
  ) {
    this.#timer = setInterval(() => this.look(), LOOK_MS);
    this.#timer.unref();
  }

  look(): void {
    for (const {
      model,
      engine,
      stats: { failed, note },
    } of this.engines()) {
      const reported = this.#reported.get(engine);
      if (failed && reported?.failed !== true)
        this.log.error({ model }, 'engine stopped after an internal error: /livez fails until the server is restarted');
      if (note !== '' && note !== reported?.note) this.log.warn({ model, note }, 'engine note');
      this.#reported.set(engine, { failed, note });
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
