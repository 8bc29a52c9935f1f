// At most so many at once; who waits is taken in turns of the organizations, so that nobody's many hold up
// another's one. What waits is bounded, and leaves if its client does. Event-loop thread only.
import { apiError } from '../errors.js';

/** For whom something is done. */
export interface Claimant {
  readonly organization: number | string;
  /** Aborted when nobody wants it any more. */
  readonly signal?: AbortSignal | undefined;
}

interface Waiting { readonly weight: number; readonly resume: () => void }

/** Those of one organization, in the order they came. */
interface Line { readonly waiting: Set<Waiting>; weight: number }

/** Organizations whose lines are full before nobody may wait any more. */
const FULL_LINES = 4;
const RETRY_AFTER_MS = 2_000;

export class FairSlots {
  readonly #lines = new Map<Claimant['organization'], Line>();      // whose turn it is first
  #free: number;
  #weight = 0;

  /** `what` waits, for errors; `maxWeight` is the most one organization's may weigh together, as run() is told. One may always wait. */
  constructor(count: number, private readonly what: string, private readonly maxWeight: number) {
    this.#free = count;
  }

  /** Runs it as soon as it is its turn. Throws ApiError capacity_exhausted, the signal's reason, what `work` throws. */
  async run<T>(claimant: Claimant, weight: number, work: () => Promise<T>): Promise<T> {
    claimant.signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(claimant, weight);
    try {
      claimant.signal?.throwIfAborted();
      return await work();
    } finally {
      this.#release();
    }
  }

  #turn({ organization, signal }: Claimant, weight: number): Promise<void> {
    const line = this.#lines.get(organization) ?? { waiting: new Set(), weight: 0 };
    const isFull = line.weight + weight > this.maxWeight || this.#weight + weight > FULL_LINES * this.maxWeight;
    if (isFull && line.waiting.size > 0) {
      throw apiError('capacity_exhausted', `Too many ${this.what} wait already.`, null, { retryAfterMs: RETRY_AFTER_MS });
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#leave(organization, line, waiting);
        reject(signal?.reason as Error);
      };
      const waiting: Waiting = {
        weight,
        resume: () => {
          signal?.removeEventListener('abort', leave);
          // Not at once: what becomes free one after the other must not hold up everything else.
          setImmediate(resolve);
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      line.waiting.add(waiting);
      line.weight += weight;
      this.#weight += weight;
      this.#lines.set(organization, line);
    });
  }

  #leave(organization: Claimant['organization'], line: Line, waiting: Waiting): void {
    line.waiting.delete(waiting);
    line.weight -= waiting.weight;
    this.#weight -= waiting.weight;
    if (line.waiting.size === 0) this.#lines.delete(organization);
  }

  #release(): void {
    for (const [organization, line] of this.#lines) {
      for (const waiting of line.waiting) {
        this.#leave(organization, line, waiting);
        this.#lines.delete(organization);
        if (line.waiting.size > 0) this.#lines.set(organization, line);   // behind the others
        waiting.resume();
        return;
      }
    }
    this.#free++;
  }
}
