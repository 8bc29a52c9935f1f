// Keeps the request log within its bounds. One per server, on the primary thread.

import type { Config } from '../config/settings.js';
import type { RequestLog } from './request-log.js';

const DAY_MS = 86_400_000;
const EVERY_MS = 60_000;

export class RequestSweep {
  #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  readonly #closing = new AbortController();

  constructor(private readonly requests: Pick<RequestLog, 'erase'>, private readonly settings: Config['requests'], private readonly onError: (error: unknown) => void) {
    const run = (): void => {
      this.#running = this.run().then(() => undefined, this.onError);
      void this.#running.then(() => { if (!this.#closing.signal.aborted) this.#timer = setTimeout(run, EVERY_MS).unref(); });
    };
    this.#timer = setTimeout(run, EVERY_MS).unref();
  }

  /** Resolves to how many entries went. */
  run(now = Date.now()): Promise<number> {
    const { days, max_rows: rows, max_bytes: bytes } = this.settings;
    return this.requests.erase({ before: now - days * DAY_MS, rows, bytes }, this.#closing.signal);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }
}
