// How many bytes of request bodies may be held at once while they are read and decompressed: in the whole
// process, and of one organization half of that. One body's limit says nothing about a hundred of them.
// Event-loop thread only.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** Organizations before those that hold nothing are forgotten. */
const MANY = 1_024;

/** Bytes that one organization may hold: half of all, and always enough for one body of `maxBodyBytes` and what it decompresses to. */
export function organizationShare(maxBytes: number, maxBodyBytes: number): number {
  return Math.max(Math.floor(maxBytes / 2), 2 * maxBodyBytes);
}

export class ReadingBudget {
  readonly #most: number;
  readonly #share: number;
  #taken = 0;
  #lookAt = MANY;
  readonly #perOrganization = new Map<string, number>(); // some hold nothing now: a table that shrinks and grows with each body keeps old ones alive

  /** A body of `maxBodyBytes` and what it decompresses to fit in whatever `maxBytes` says. */
  constructor(maxBytes: number, maxBodyBytes: number) {
    this.#share = organizationShare(maxBytes, maxBodyBytes);
    this.#most = Math.max(maxBytes, this.#share);
  }

  /** Bytes held now. */
  get taken(): number {
    return this.#taken;
  }

  /** Bytes that one organization may hold. */
  get share(): number {
    return this.#share;
  }

  /** Organizations something is remembered of. */
  get organizations(): number {
    return this.#perOrganization.size;
  }

  /** One body about to be read. */
  open(organizationId: string): Reading {
    return new Reading(this, organizationId);
  }

  /** For Reading. False if there is no room; nothing is taken then. Negative gives back. */
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

/** What one body holds of the budget. */
export class Reading {
  #bytes = 0;

  constructor(
    private readonly budget: ReadingBudget,
    private readonly organizationId: string,
  ) {}

  /** Before `bytes` more are kept. False: they must not be. */
  add(bytes: number): boolean {
    if (!this.budget.take(this.organizationId, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** So many of them are not kept any longer. */
  free(bytes: number): void {
    const fewer = Math.min(bytes, this.#bytes);
    if (fewer > 0) this.budget.take(this.organizationId, -fewer);
    this.#bytes -= fewer;
  }

  /** Nothing is kept any more. */
  release(): void {
    if (this.#bytes > 0) this.budget.take(this.organizationId, -this.#bytes);
    this.#bytes = 0;
  }
}

export function tooMuchToRead(): ApiError {
  return apiError(
    'capacity_exhausted',
    'Too many request bodies are being read at the moment. Send the request again shortly.',
    null,
    { retryAfterMs: 1000 },
  );
}
