// What is over is erased now and every hour, one sweep after the other. On one thread of each process.

const SWEEP_MS = 3_600_000;

export class Sweeping {
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> = Promise.resolve();

  constructor(private readonly erase: () => Promise<void>) {}

  /** Sweeps now and every hour; `also` is done at the same times. */
  keep(also: () => Promise<void>, onError: (error: unknown) => void): void {
    const sweep = (): void => { this.sweep(also).catch(onError); };
    sweep();
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
    await this.#running;
  }
}
