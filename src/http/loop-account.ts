// What large requests take of this thread's time, on the account of the organization that asks: measured, noted
// with the request, and refused unread once the organization has used up its share (admission/loop-time.ts).
// Small requests are not looked at: what they take is the ordinary price of a request.

import { performance } from 'node:perf_hooks';
import type { LoopTime } from '../admission/loop-time.js';
import { ApiError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';

/** Bytes from which the work on a request is charged. */
export const CHARGED_BYTES = 16_384;
/** What takes less is the ordinary price of a request too. */
const LONG_MS = 1;

/** What of one request has taken the thread's time. */
export class LoopClock {
  #ms = 0;
  #began: number | null = null;

  begin(): void {
    this.#began = performance.now();
  }

  get runs(): boolean {
    return this.#began !== null;
  }

  /** Milliseconds since begin(). */
  end(): number {
    const ms = performance.now() - (this.#began ?? NaN);
    this.#began = null;
    this.#ms += ms;
    return ms;
  }

  /** Measured by somebody else. */
  add(ms: number): void {
    this.#ms += ms;
  }

  /** Milliseconds so far; undefined if nothing was measured. An answer may be sent while it is. */
  get ms(): number | undefined {
    const ms = this.#ms + (this.#began === null ? 0 : performance.now() - this.#began);
    return ms > 0 ? ms : undefined;
  }
}

/** The request, for the log and metrics. */
interface Noted {
  readonly loop: LoopClock;
  annotate(fields: RequestRecord['fields']): void;
}

export class LoopAccount {
  /** `organizationId` '': of nobody known, never charged. */
  constructor(
    private readonly time: LoopTime,
    private readonly organizationId: string,
    private readonly noted: Noted,
  ) {}

  /** Why nothing of so many bytes is read now. */
  refusal(bytes: number): ApiError | null {
    if (!this.#counts(bytes)) return null;
    try {
      this.time.check(this.organizationId);
      return null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.noted.annotate({ refused_by: 'loop_ms' });
      return error;
    }
  }

  /** Reads and checks what came in so many bytes. Throws ApiError 429 before anything is done. */
  run<T>(bytes: number, work: () => T): T {
    const refusal = this.refusal(bytes);
    if (refusal !== null) throw refusal;
    return this.charged(bytes, work);
  }

  /** Goes on with what has been read. */
  charged<T>(bytes: number, work: () => T): T {
    if (!this.#counts(bytes) || this.noted.loop.runs) return work(); // within other work it is measured with that
    this.noted.loop.begin();
    try {
      return work();
    } finally {
      this.time.charge(this.organizationId, this.noted.loop.end());
    }
  }

  /** Makes an answer, on the account if it takes long: how large it is shows in that. */
  measured<T>(work: () => T): T {
    const began = performance.now();
    const made = work();
    const ms = performance.now() - began;
    if (ms >= LONG_MS && this.organizationId !== '' && !this.noted.loop.runs) {
      this.noted.loop.add(ms);
      this.time.charge(this.organizationId, ms);
    }
    return made;
  }

  #counts(bytes: number): boolean {
    return bytes >= CHARGED_BYTES && this.organizationId !== '';
  }
}
