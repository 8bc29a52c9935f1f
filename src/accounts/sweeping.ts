// Erases expired data at startup and then every hour. Only one sweep runs at a time. Runs on one thread per process.

import type { EraseGate } from '../storage/erase-gate.js';

const SWEEP_MS = 3_600_000;

export class Sweeping {
  #timer: NodeJS.Timeout | null = null;
  #stopListening: () => void = () => undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(private readonly erase: () => Promise<void>) {}

  /**
   * Sweeps immediately, then every hour and whenever `gate` starts to allow it. Skips a sweep while `gate` does not
   * allow erasing. `also` runs with each sweep.
   */
  keep(also: () => Promise<void>, onError: (error: unknown) => void, gate: EraseGate): void {
    const sweep = (): void => {
      if (gate.allows()) this.sweep(also).catch(onError);
    };
    sweep();
    this.#stopListening = gate.onAllowed(sweep);
    this.#timer = setInterval(sweep, SWEEP_MS);
    this.#timer.unref();
  }

  sweep(also: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    const done = this.#running.then(async () => {
      await this.erase();
      await also();
    });
    this.#running = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#stopListening();
    await this.#running;
  }
}
