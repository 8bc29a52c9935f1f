// At most so many at once; who waits is taken in turns of the organizations, and first whoever has the fewest at work,
// so that nobody's many hold up another's one. What waits is bounded, and leaves if its client does. With a budget, who
// has used it up waits until it has grown again, and nobody waits for them meanwhile. Event-loop thread only.
import { apiError } from '../errors.js';

/** For whom something is done. */
export interface Claimant {
  readonly organization: number | string;
  /** Aborted when nobody wants it any more. */
  readonly signal?: AbortSignal | undefined;
}

/** What one organization's may take: so much time at once, and with every millisecond that passes so much more. */
export interface TimeBudget {
  readonly ms: number;
  readonly msPerMs: number;
}

/** Where so many may be at once. */
export interface Places {
  take(): boolean;
  release(): void;
  /** Tells once, after a place that somebody else had may be free. */
  whenFree(tell: () => void): void;
}

/** Nobody else has any: who releases one serves the next. */
class OwnPlaces implements Places {
  constructor(private free: number) {}

  take(): boolean {
    if (this.free === 0) return false;
    this.free--;
    return true;
  }

  release(): void { this.free++; }
  whenFree(): void {}
}

interface Waiting { readonly weight: number; readonly resume: () => void }

/** Those of one organization, in the order they came. */
interface Line { readonly waiting: Set<Waiting>; weight: number }

/** Organizations whose lines are full before nobody may wait any more. */
const FULL_LINES = 4;
const RETRY_AFTER_MS = 2_000;

export class FairSlots {
  readonly #lines = new Map<Claimant['organization'], Line>();      // whose turn it is first
  readonly #atWork = new Map<Claimant['organization'], number>();   // slots
  readonly #taken = new Map<Claimant['organization'], { ms: number; at: number }>();   // of the budget
  readonly #places: Places;
  #isFull = false;                 // who waits had their turn and found no place
  #looks = false;                  // for one that somebody else has
  #weight = 0;
  #wake: NodeJS.Timeout | undefined;

  /** `places`, or how many; `what` waits, for errors; `maxWeight` is the most one organization's may weigh together, as run() is told. One may always wait. */
  constructor(places: number | Places, private readonly what: string, private readonly maxWeight: number, private readonly budget?: TimeBudget, private readonly now: () => number = () => performance.now()) {
    this.#places = typeof places === 'number' ? new OwnPlaces(places) : places;
  }

  /** Runs it as soon as it is its turn. Throws ApiError capacity_exhausted, the signal's reason, what `work` throws. */
  async run<T>(claimant: Claimant, weight: number, work: () => Promise<T>): Promise<T> {
    claimant.signal?.throwIfAborted();
    if (!this.#isFull && this.#delay(claimant.organization) === 0 && this.#places.take()) this.#begin(claimant.organization);
    else await this.#turn(claimant, weight);
    try {
      claimant.signal?.throwIfAborted();
      return await work();
    } finally {
      const left = (this.#atWork.get(claimant.organization) ?? 0) - 1;
      if (left > 0) this.#atWork.set(claimant.organization, left);
      else this.#atWork.delete(claimant.organization);
      this.#places.release();
      this.#serve();
    }
  }

  /** So much time of its budget was taken. */
  charge(organization: Claimant['organization'], ms: number): void {
    if (this.budget === undefined || ms <= 0) return;
    for (const other of this.#taken.keys()) this.#takenBy(other);   // those that have all of it again are forgotten
    this.#taken.set(organization, { ms: this.#takenBy(organization) + ms, at: this.now() });
  }

  #takenBy(organization: Claimant['organization']): number {
    const taken = this.#taken.get(organization);
    if (taken === undefined || this.budget === undefined) return 0;
    const ms = taken.ms - (this.now() - taken.at) * this.budget.msPerMs;
    if (ms > 0) return ms;
    this.#taken.delete(organization);
    return 0;
  }

  /** Milliseconds before it has something of its budget again. */
  #delay(organization: Claimant['organization']): number {
    return this.budget === undefined ? 0 : Math.max(0, Math.ceil((this.#takenBy(organization) - this.budget.ms) / this.budget.msPerMs));
  }

  #begin(organization: Claimant['organization']): void {
    this.#atWork.set(organization, (this.#atWork.get(organization) ?? 0) + 1);
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
      if (!this.#isFull) this.#serve();
    });
  }

  #leave(organization: Claimant['organization'], line: Line, waiting: Waiting): void {
    line.waiting.delete(waiting);
    line.weight -= waiting.weight;
    this.#weight -= waiting.weight;
    if (line.waiting.size === 0) this.#lines.delete(organization);
    if (this.#lines.size > 0) return;
    clearTimeout(this.#wake);
    this.#isFull = false;
  }

  /** Gives free slots to those who wait. */
  #serve(): void {
    clearTimeout(this.#wake);
    while (this.#lines.size > 0) {
      let first: Claimant['organization'] | undefined, fewest = Infinity, soonest = Infinity;
      for (const organization of this.#lines.keys()) {
        const delay = this.#delay(organization), atWork = this.#atWork.get(organization) ?? 0;
        if (delay > 0) soonest = Math.min(soonest, delay);
        else if (atWork < fewest) [first, fewest] = [organization, atWork];
      }
      if (first === undefined) {
        this.#wake = setTimeout(() => { this.#serve(); }, soonest);
        return;
      }
      this.#isFull = !this.#places.take();
      if (this.#isFull) return this.#look();
      this.#resumeFirst(first);
    }
  }

  #look(): void {
    if (this.#looks) return;
    this.#looks = true;
    this.#places.whenFree(() => {
      this.#looks = false;
      this.#serve();
    });
  }

  #resumeFirst(organization: Claimant['organization']): void {
    const line = this.#lines.get(organization);
    const [waiting] = line?.waiting ?? [];
    if (line === undefined || waiting === undefined) return;
    this.#leave(organization, line, waiting);
    this.#lines.delete(organization);
    if (line.waiting.size > 0) this.#lines.set(organization, line);   // behind the others
    this.#begin(organization);
    waiting.resume();
  }
}
