// Limits how many bytes of large responses are held in memory, from assembly until the client has read them. The limit
// applies per process, and one organization may use half of it. Therefore, a slow reader can use up only its own
// organization's share. Event-loop thread only.
import { apiError, type ApiError } from '../shared/errors.js';
import { RequestMemoryBudget, type Reading } from './request-memory-budget.js';

/** Responses below this size are not counted, because they fit in the kernel's socket buffer. */
export const LARGE_ANSWER_BYTES = 65_536;

export class ResponseMemoryBudget {
  readonly #bytes: RequestMemoryBudget;

  /** One response of `largest` bytes always fits in an organization's share, even if `maxBytes` is smaller. */
  constructor(maxBytes: number, largest: number) {
    this.#bytes = new RequestMemoryBudget(maxBytes, largest);
  }

  open(organizationId: string): ResponseReservation {
    return new ResponseReservation(this.#bytes.open(organizationId), this.#bytes.share);
  }
}

/** The part of the budget reserved for one response. */
export class ResponseReservation {
  #bytes = 0;

  constructor(
    private readonly held: Reading,
    private readonly share: number,
  ) {}

  /** Reserves `bytes` more bytes. Returns null on success, otherwise the error to send. */
  add(bytes: number): ApiError | null {
    if (this.held.add(bytes)) {
      this.#bytes += bytes;
      return null;
    }
    if (this.#bytes + bytes > this.share) {
      return apiError(
        'unsupported_value',
        `The response would exceed the maximum of ${this.share} bytes. Request less at a time: fewer prompts, choices, log-probabilities or items.`,
      );
    }
    return apiError(
      'capacity_exhausted',
      'The server is holding too many large responses in memory. Retry shortly.',
      null,
      { retryAfterMs: 1000 },
    );
  }

  /** Like add(), but throws the error: ApiError 503 or 422. */
  reserve(bytes: number): void {
    const refusal = this.add(bytes);
    if (refusal !== null) throw refusal;
  }

  /** Raises the reservation to a total of `bytes`, for callers that first reserved an estimate. */
  settle(bytes: number): ApiError | null {
    return bytes > this.#bytes ? this.add(bytes - this.#bytes) : null;
  }

  free(bytes: number): void {
    this.held.free(bytes);
    this.#bytes = Math.max(0, this.#bytes - bytes);
  }

  release(): void {
    this.held.release();
    this.#bytes = 0;
  }
}
