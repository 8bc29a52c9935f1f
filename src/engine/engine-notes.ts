// What engines have come to say about themselves while they run, for the log: that one has stopped for good, and what
// its backend notes (a GPU's steps that could not be recorded). Looked for now and then; each is said once.

import type { Log } from '../telemetry/types.js';
import type { NativeStats } from './addon-types.js';

const LOOK_MS = 5_000;

/** An engine by the name it is logged under, and its numbers. */
export interface NotedEngine {
  model: string;
  engine: object;
  stats: Pick<NativeStats, 'failed' | 'note'>;
}

export class EngineNotes {
  readonly #said = new WeakMap<object, { failed: boolean; note: string }>();
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
      const said = this.#said.get(engine);
      if (failed && said?.failed !== true)
        this.log.error(
          { model },
          'the engine has stopped on an internal error: /livez fails until the server is started again',
        );
      if (note !== '' && note !== said?.note) this.log.warn({ model, note }, 'engine note');
      this.#said.set(engine, { failed, note });
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
