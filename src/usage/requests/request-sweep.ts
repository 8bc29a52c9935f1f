// Keeps the request log within its bounds. One per server, on the primary thread.

import type { Config } from '../../config/settings.js';
import { OPEN_GATE } from '../../storage/erase-gate.js';
import type { EraseGate } from '../../storage/erase-gate.js';
import type { RequestLog } from './request-log.js';

const DAY_MS = 86_400_000;
const EVERY_MS = 60_000;

export class RequestSweep {
  #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  readonly #closing = new AbortController();

  constructor(
    private readonly requests: Pick<RequestLog, 'erase'>,
    private readonly settings: Config['requests'],
    private readonly onError: (error: unknown) => void,
    private readonly gate: Pick<EraseGate, 'allows'> = OPEN_GATE,
    private readonly now: () => number = Date.now,
  ) {
    const run = (): void => {
      this.#running = this.run().then(() => undefined, this.onError);
      void this.#running.then(() => {
        if (!this.#closing.signal.aborted) this.#timer = setTimeout(run, EVERY_MS).unref();
      });
    };
    this.#timer = setTimeout(run, EVERY_MS).unref();
  }

  /** Resolves to the number of entries erased. While the clock is in doubt, only the limits on rows and bytes apply. */
  run(now = this.now()): Promise<number> {
    const { days, max_rows: rows, max_bytes: bytes } = this.settings;
    return this.requests.erase(
      { before: this.gate.allows() ? now - days * DAY_MS : 0, rows, bytes },
      this.#closing.signal,
    );
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }
}
