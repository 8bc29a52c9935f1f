// Limits how many bytes of request bodies are held in memory while they are being read and decompressed: per process,
// and half of that per organization. The size limit per body alone would not prevent a hundred bodies from using too
// much memory. Event-loop thread only.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';
import { shareOf } from '../shared/thread-count.js';

/** If more than this many organizations are tracked, idle ones are removed. */
const MANY = 1_024;

/**
 * Bytes that one organization may hold: half of the total, but at least enough for one body of `maxBodyBytes` and its
 * decompressed form.
 */
export function organizationShare(maxBytes: number, maxBodyBytes: number): number {
  return Math.max(Math.floor(maxBytes / 2), 2 * maxBodyBytes);
}

export class RequestMemoryBudget {
  readonly #most: number;
  readonly #share: number;
  #taken = 0;
  #lookAt = MANY;
  // Entries of 0 are kept, because a map that shrinks and grows with each body leaves old hash tables in memory.
  readonly #perOrganization = new Map<string, number>();

  /** A body of `maxBodyBytes` and its decompressed form always fit, even if `maxBytes` is smaller. */
  constructor(maxBytes: number, maxBodyBytes: number) {
    this.#share = organizationShare(maxBytes, maxBodyBytes);
    this.#most = Math.max(maxBytes, this.#share);
  }

  get taken(): number {
    return this.#taken;
  }

  get share(): number {
    return this.#share;
  }

  /** Number of organizations remembered. */
  get organizations(): number {
    return this.#perOrganization.size;
  }

  /** Opens a reservation for one body. */
  open(organizationId: string): Reading {
    return new Reading(this, organizationId);
  }

  /**
   * Called by Reading. Returns false and reserves nothing if the budget is exhausted. A negative number releases
   * memory.
   */
  take(organizationId: string, bytes: number): boolean {
    const own = (this.#perOrganization.get(organizationId) ?? 0) + bytes;
    if (bytes > 0 && (own > this.#share || this.#taken + bytes > this.#most)) return false;
    this.#taken += bytes;
    this.#perOrganization.set(organizationId, own);
    if (this.#perOrganization.size > this.#lookAt) this.#forgetIdle();
    return true;
  }

  #forgetIdle(): void {
    for (const [organizationId, bytes] of this.#perOrganization)
      if (bytes === 0) this.#perOrganization.delete(organizationId);
    this.#lookAt = Math.max(MANY, 2 * this.#perOrganization.size);
  }
}

/** Creates the budget of one HTTP worker, which gets an equal share of http.max_reading_bytes. */
export const requestMemoryOf = (settings: { max_reading_bytes: number; max_body_bytes: number }): RequestMemoryBudget =>
  new RequestMemoryBudget(shareOf(settings.max_reading_bytes), settings.max_body_bytes);

/** The part of the budget reserved for one body. */
export class Reading {
  #bytes = 0;

  constructor(
    private readonly budget: RequestMemoryBudget,
    private readonly organizationId: string,
  ) {}

  /**
   * Reserves `bytes` more bytes. Returns false if the budget is exhausted. In that case, the caller must not keep the
   * bytes.
   */
  add(bytes: number): boolean {
    if (!this.budget.take(this.organizationId, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Releases `bytes` from the reservation. */
  free(bytes: number): void {
    const fewer = Math.min(bytes, this.#bytes);
    if (fewer > 0) this.budget.take(this.organizationId, -fewer);
    this.#bytes -= fewer;
  }

  /** Releases the whole reservation. */
  release(): void {
    if (this.#bytes > 0) this.budget.take(this.organizationId, -this.#bytes);
    this.#bytes = 0;
  }
}

export function tooMuchToRead(): ApiError {
  return apiError('capacity_exhausted', 'The server is reading too many request bodies. Retry shortly.', null, {
    retryAfterMs: 1000,
  });
}
