// How many bytes the images of requests may take at once, from their loading until their request is over: in this thread,
// and of one organization half of that. One request's limits say nothing about a hundred of them. Event-loop thread only.
import { apiError } from '../../shared/errors.js';

/**
 * What an image takes of memory for each of its bytes while a server elsewhere is asked about it: the file, its base64 as it
 * came, in the request that is made and in that one's text, and what of this waits for the socket.
 */
const ELSEWHERE = 5;
const RETRY_AFTER_MS = 2_000;

export class ImageBudget {
  readonly #most: number;
  readonly #share: number;
  readonly #perOrganization = new Map<number, number>();
  #taken = 0;

  /** The images of one request, `largest` bytes, always fit into the share of an organization. */
  constructor(maxBytes: number, largest: number) {
    this.#share = Math.max(Math.floor(maxBytes / 2), largest * ELSEWHERE);
    this.#most = Math.max(maxBytes, this.#share);
  }

  /** Bytes held now. */
  get taken(): number {
    return this.#taken;
  }

  /** For a request. `elsewhere`: they are sent to another server. */
  open(organization: number, elsewhere: boolean): HeldImages {
    return new HeldImages(this, organization, elsewhere ? ELSEWHERE : 1);
  }

  /** For HeldImages. False if there is no room; nothing is taken then. */
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

/** What the images of one request hold of the budget. */
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

  /** An image of so many bytes is kept from now on. Throws ApiError capacity_exhausted. */
  add(bytes: number): void {
    const taken = bytes * this.weight;
    if (!this.budget.take(this.organization, taken)) {
      throw apiError(
        'capacity_exhausted',
        'Too many bytes of images are held at the moment. Send the request again shortly.',
        null,
        { retryAfterMs: RETRY_AFTER_MS },
      );
    }
    this.#bytes += taken;
  }

  /** None is kept any more. */
  release(): void {
    if (this.#bytes > 0) this.budget.give(this.organization, this.#bytes);
    this.#bytes = 0;
  }
}
