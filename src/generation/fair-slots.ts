// At most so many at once; who waits is taken in turns of the organizations, and first whoever has the fewest at work,
// so that nobody's many hold up another's one. What waits is bounded, and leaves if its client does. With a budget, who
// has used it up waits until it has grown again, and nobody waits for them meanwhile. Event-loop thread only.
import { apiError } from '../shared/errors.js';

/** What tells organizations apart. */
type Organization = number | string;

/** For whom something is done. */
export interface Claimant<O extends Organization = Organization> {
  readonly organization: O;
  /** Aborted when nobody wants it any more. */
  readonly signal?: AbortSignal | undefined;
}

/** What one organization's may take: so much time at once, and with every millisecond that passes so much more. */
export interface TimeBudget {
  readonly ms: number;
  readonly msPerMs: number;
}

/** Where so many may be at once. */
export interface Places<O extends Organization> {
  /** One for an organization, whose line waits `since` then, or has not waited (null); false: there is none, or others wait elsewhere and come first. */
  take(organization: O, since: number | null): boolean;
  release(organization: O): void;
  /** How many it has. */
  atWork(organization: O): number;
  /** When it last had a turn after waiting elsewhere, by now(). */
  lastTurn(organization: O): number;
  /** Later ones are larger. */
  now(): number;
  /** Nobody waits here any more. */
  nobodyWaits(): void;
  /** Tells once, after a take() with `since` might go better than the last one did. */
  whenFree(tell: () => void): void;
}

/** Nobody else has any: who releases one serves the next. */
class OwnPlaces<O extends Organization> implements Places<O> {
  readonly #atWork = new Map<O, number>();
  #now = 0;

  constructor(private free: number) {}

  take(organization: O): boolean {
    if (this.free === 0) return false;
    this.free--;
    this.#atWork.set(organization, this.atWork(organization) + 1);
    return true;
  }

  release(organization: O): void {
    this.free++;
    const left = this.atWork(organization) - 1;
    if (left > 0) this.#atWork.set(organization, left);
    else this.#atWork.delete(organization);
  }

  atWork(organization: O): number {
    return this.#atWork.get(organization) ?? 0;
  }
  lastTurn(): number {
    return 0;
  }
  now(): number {
    return ++this.#now;
  }
  nobodyWaits(): void {}
  whenFree(): void {}
}

interface Waiting {
  readonly weight: number;
  readonly resume: () => void;
}

/** Those of one organization, in the order they came. `since`: when it began, or had its last turn here. */
interface Line {
  readonly waiting: Set<Waiting>;
  weight: number;
  since: number;
}

/** Organizations whose lines are full before nobody may wait any more. */
const FULL_LINES = 4;
const RETRY_AFTER_MS = 2_000;

export class FairSlots<O extends Organization = Organization> {
  readonly #lines = new Map<O, Line>();
  readonly #taken = new Map<O, { ms: number; at: number }>(); // of the budget
  readonly #places: Places<O>;
  #isFull = false; // who waits had their turn and found no place
  #looks = false; // for one that somebody else has
  #weight = 0;
  #wake: NodeJS.Timeout | undefined;

  /**
   * `places`, or how many; `what` waits, for errors; `maxWeight` is the most one organization's may weigh together, as run() is told. One may always wait.
   * `mostOfOne`: so many an organization may have at once, whether anybody waits or not: for work that takes as long as a stranger likes.
   */
  constructor(
    places: number | Places<O>,
    private readonly what: string,
    private readonly maxWeight: number,
    private readonly budget?: TimeBudget,
    private readonly now: () => number = () => performance.now(),
    private readonly mostOfOne = Infinity,
  ) {
    this.#places = typeof places === 'number' ? new OwnPlaces(places) : places;
  }

  /** Runs it as soon as it is its turn. Throws ApiError capacity_exhausted, the signal's reason, what `work` throws. */
  async run<T>(claimant: Claimant<O>, weight: number, work: () => Promise<T>): Promise<T> {
    const { organization, signal } = claimant;
    signal?.throwIfAborted();
    if (!this.take(organization)) await this.#turn(claimant, weight);
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      this.release(organization);
    }
  }

  /** As run() begins where nobody waits. False: it has to. */
  take(organization: O): boolean {
    return (
      !this.#isFull &&
      this.#delay(organization) === 0 &&
      (this.mostOfOne === Infinity || this.#places.atWork(organization) < this.mostOfOne) &&
      this.#places.take(organization, null)
    );
  }

  release(organization: O): void {
    this.#places.release(organization);
    this.#serve();
  }

  /** So much time of its budget was taken. */
  charge(organization: O, ms: number): void {
    if (this.budget === undefined || ms <= 0) return;
    for (const other of this.#taken.keys()) this.#takenBy(other); // those that have all of it again are forgotten
    this.#taken.set(organization, { ms: this.#takenBy(organization) + ms, at: this.now() });
  }

  #takenBy(organization: O): number {
    const taken = this.#taken.get(organization);
    if (taken === undefined || this.budget === undefined) return 0;
    const ms = taken.ms - (this.now() - taken.at) * this.budget.msPerMs;
    if (ms > 0) return ms;
    this.#taken.delete(organization);
    return 0;
  }

  /** Milliseconds before it has something of its budget again. */
  #delay(organization: O): number {
    return this.budget === undefined
      ? 0
      : Math.max(0, Math.ceil((this.#takenBy(organization) - this.budget.ms) / this.budget.msPerMs));
  }

  #turn({ organization, signal }: Claimant<O>, weight: number): Promise<void> {
    const line = this.#lines.get(organization) ?? { waiting: new Set(), weight: 0, since: this.#places.now() };
    const isFull = line.weight + weight > this.maxWeight || this.#weight + weight > FULL_LINES * this.maxWeight;
    if (isFull && line.waiting.size > 0) {
      throw apiError('capacity_exhausted', `Too many ${this.what} wait already.`, null, {
        retryAfterMs: RETRY_AFTER_MS,
      });
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#leave(organization, line, waiting);
        reject(signal?.reason as Error);
        this.#serve();
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
      this.#serve();
    });
  }

  #leave(organization: O, line: Line, waiting: Waiting): void {
    line.waiting.delete(waiting);
    line.weight -= waiting.weight;
    this.#weight -= waiting.weight;
    if (line.waiting.size === 0) this.#lines.delete(organization);
  }

  /** Gives free slots to those who wait. */
  #serve(): void {
    clearTimeout(this.#wake);
    while (this.#lines.size > 0) {
      let first: O | undefined,
        since = 0,
        fewest = Infinity,
        earliest = Infinity,
        soonest = Infinity;
      for (const [organization, line] of this.#lines) {
        const delay = this.#delay(organization);
        if (delay > 0) {
          soonest = Math.min(soonest, delay);
          continue;
        }
        const atWork = this.#places.atWork(organization);
        if (atWork >= this.mostOfOne) continue; // one that ends serves the next
        const turn = Math.max(line.since, this.#places.lastTurn(organization));
        if (atWork < fewest || (atWork === fewest && turn < earliest))
          [first, since, fewest, earliest] = [organization, line.since, atWork, turn];
      }
      if (first === undefined) {
        if (soonest < Infinity)
          this.#wake = setTimeout(() => {
            this.#serve();
          }, soonest);
        break;
      }
      this.#isFull = !this.#places.take(first, since);
      if (this.#isFull) return this.#look();
      this.#resumeFirst(first);
    }
    this.#isFull = false;
    this.#places.nobodyWaits();
  }

  #look(): void {
    if (this.#looks) return;
    this.#looks = true;
    this.#places.whenFree(() => {
      this.#looks = false;
      this.#serve();
    });
  }

  #resumeFirst(organization: O): void {
    const line = this.#lines.get(organization);
    const [waiting] = line?.waiting ?? [];
    if (line === undefined || waiting === undefined) return;
    this.#leave(organization, line, waiting);
    line.since = this.#places.now(); // behind the others
    waiting.resume();
  }
}
