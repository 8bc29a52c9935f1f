// How many bytes of large answers are held at once, while they are put together and until they have been read: in the whole
// process, and of one organization half of that. Whoever reads slowly holds his own. Event-loop thread only.
import { apiError, type ApiError } from '../shared/errors.js';
import { ReadingBudget, type Reading } from './reading-budget.js';

/** An answer of fewer bytes costs less than counting it is worth: the kernel takes it. */
export const LARGE_ANSWER_BYTES = 65_536;

export class AnswerBudget {
  readonly #bytes: ReadingBudget;

  /** `largest` bytes fit into the share of an organization, whatever `maxBytes` says. */
  constructor(maxBytes: number, largest: number) {
    this.#bytes = new ReadingBudget(maxBytes, largest);
  }

  open(organizationId: string): HeldAnswer {
    return new HeldAnswer(this.#bytes.open(organizationId), this.#bytes.share);
  }
}

/** What one answer holds of the budget. */
export class HeldAnswer {
  #bytes = 0;

  constructor(
    private readonly held: Reading,
    private readonly share: number,
  ) {}

  /** Why `bytes` more must not be kept; null: they may be, and count from now on. */
  add(bytes: number): ApiError | null {
    if (this.held.add(bytes)) {
      this.#bytes += bytes;
      return null;
    }
    if (this.#bytes + bytes > this.share) {
      return apiError(
        'unsupported_value',
        `The answer would have more than the ${this.share} bytes that one may have. Ask for less at once: fewer prompts, choices, log-probabilities or items.`,
      );
    }
    return apiError(
      'capacity_exhausted',
      'The server is holding too many large responses in memory. Retry shortly.',
      null,
      { retryAfterMs: 1000 },
    );
  }

  /** As add(), but throws why not: ApiError 503, 422. */
  hold(bytes: number): void {
    const refusal = this.add(bytes);
    if (refusal !== null) throw refusal;
  }

  /** As many in all, for who has counted about. */
  settle(bytes: number): ApiError | null {
    return bytes > this.#bytes ? this.add(bytes - this.#bytes) : null;
  }

  /** Returns this many bytes to the budget. */
  free(bytes: number): void {
    this.held.free(bytes);
    this.#bytes = Math.max(0, this.#bytes - bytes);
  }

  release(): void {
    this.held.release();
    this.#bytes = 0;
  }
}
