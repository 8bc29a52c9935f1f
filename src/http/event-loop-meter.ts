// Measures how much event-loop time large requests take on this thread, and charges it to the requesting organization.
// The time is also recorded with the request. If an organization has used up its share, its large requests are rejected
// before they are read (admission/event-loop-budget.ts). Small requests are not measured.

import { performance } from 'node:perf_hooks';
import type { EventLoopBudget } from '../admission/event-loop-budget.js';
import { ApiError } from '../shared/errors.js';
import type { RequestRecord } from '../telemetry/outcome.js';

/** Requests of at least this many bytes are charged. */
export const CHARGED_BYTES = 16_384;
/** Building a response is charged only if it takes at least this long, in ms. */
const LONG_MS = 1;

/** Event-loop time used by one request. */
export class EventLoopClock {
  #ms = 0;
  #began: number | null = null;

  begin(): void {
    this.#began = performance.now();
  }

  get runs(): boolean {
    return this.#began !== null;
  }

  /** Returns the milliseconds since begin(). */
  end(): number {
    const ms = performance.now() - (this.#began ?? NaN);
    this.#began = null;
    this.#ms += ms;
    return ms;
  }

  /** Adds time measured elsewhere. */
  add(ms: number): void {
    this.#ms += ms;
  }

  /** Milliseconds charged so far, including a measurement in progress. Undefined if nothing was measured. */
  get ms(): number | undefined {
    const ms = this.#ms + (this.#began === null ? 0 : performance.now() - this.#began);
    return ms > 0 ? ms : undefined;
  }
}

/** The request whose log line and metrics include the time. */
interface Noted {
  readonly loop: EventLoopClock;
  annotate(fields: RequestRecord['fields']): void;
}

export class EventLoopMeter {
  /** An `organizationId` of '' means an unknown caller, who is never charged. */
  constructor(
    private readonly time: EventLoopBudget,
    private readonly organizationId: string,
    private readonly noted: Noted,
  ) {}

  /** Returns the error if work on `bytes` bytes must be rejected now, or null if the work may run. */
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

  /** Runs work that reads and checks `bytes` bytes. Throws ApiError 429 before starting if the budget is used up. */
  run<T>(bytes: number, work: () => T): T {
    const refusal = this.refusal(bytes);
    if (refusal !== null) throw refusal;
    return this.charged(bytes, work);
  }

  /** Runs further work on data that has already been read. Never refused. */
  charged<T>(bytes: number, work: () => T): T {
    if (!this.#counts(bytes) || this.noted.loop.runs) return work(); // already being measured as part of other work
    this.noted.loop.begin();
    try {
      return work();
    } finally {
      this.time.charge(this.organizationId, this.noted.loop.end());
    }
  }

  /**
   * Runs work that builds a response. If the work took long, its time is charged afterwards, because the response size
   * is not known in advance.
   */
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
