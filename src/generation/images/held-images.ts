// Limits the memory for images across all requests on this thread, from loading until the request ends. One
// organization may use half of the memory. Per-request limits alone would not limit the total. Event-loop thread only.
import { apiError } from '../../shared/errors.js';

/**
 * Memory per byte of an image that is sent to an upstream: one byte each for the file, for its base64 text as received,
 * in the new request and in that request's JSON, and for the part waiting to be sent.
 */
const ELSEWHERE = 5;
const RETRY_AFTER_MS = 2_000;

export class ImageBudget {
  readonly #most: number;
  readonly #share: number;
  readonly #perOrganization = new Map<number, number>();
  #taken = 0;

  /**
   * `maxBytes`: the limit on all images together. `largest`: maximum size of one request's images; an organization's
   * share is always large enough for them.
   */
  constructor(maxBytes: number, largest: number) {
    this.#share = Math.max(Math.floor(maxBytes / 2), largest * ELSEWHERE);
    this.#most = Math.max(maxBytes, this.#share);
  }

  /** Bytes in use. */
  get taken(): number {
    return this.#taken;
  }

  /** Opens the memory account for one request's images. `elsewhere`: the images are sent to an upstream. */
  open(organization: number, elsewhere: boolean): HeldImages {
    return new HeldImages(this, organization, elsewhere ? ELSEWHERE : 1);
  }

  /** Called by HeldImages. Returns false and takes nothing if the limit would be exceeded. */
  take(organization: number, bytes: number): boolean {
    const own = (this.#perOrganization.get(organization) ?? 0) + bytes;
    if (own > this.#share || this.#taken + bytes > this.#most) return false;
    this.#taken += bytes;
    this.#perOrganization.set(organization, own);
    return true;
  }

  give(organization: number, bytes: number): void {
    this.#taken -= bytes;
    const own = (this.#perOrganization.get(organization) ?? 0) - bytes;
    if (own > 0) this.#perOrganization.set(organization, own);
    else this.#perOrganization.delete(organization);
  }
}

/** The part of the memory budget that one request's images occupy. */
export class HeldImages {
  #bytes = 0;

  constructor(
    private readonly budget: ImageBudget,
    private readonly organization: number,
    private readonly weight: number,
  ) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** Reserves memory for an image of this many bytes. Throws ApiError capacity_exhausted. */
  add(bytes: number): void {
    const taken = bytes * this.weight;
    if (!this.budget.take(this.organization, taken)) {
      throw apiError(
        'capacity_exhausted',
        'The server is holding too many image bytes in memory. Retry shortly.',
        null,
        { retryAfterMs: RETRY_AFTER_MS },
      );
    }
    this.#bytes += taken;
  }

  /** Returns all of the memory to the budget. */
  release(): void {
    if (this.#bytes > 0) this.budget.give(this.organization, this.#bytes);
    this.#bytes = 0;
  }
}
