// Runs a limited number of tasks concurrently. Waiting tasks are served round-robin by organization, starting with the
// organization that has the fewest running tasks, so that one organization's many tasks cannot delay another's. The
// queue is bounded, and a task leaves it when its client disconnects. If a time budget is set, an organization that has
// used it up waits until it refills, without delaying others. Event-loop thread only.
import { apiError } from '../shared/errors.js';

/** Identifies an organization. */
type Organization = number | string;

/** The organization for which a task runs, and the task's abort signal. */
export interface Requester<O extends Organization = Organization> {
  readonly organization: O;
  /** Aborted when the result is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

/** Time budget per organization: its capacity in ms, and its refill per millisecond. */
export interface TimeBudget {
  readonly ms: number;
  readonly msPerMs: number;
}

/** A pool of concurrency slots. */
export interface SlotPool<O extends Organization> {
  /**
   * Takes a slot for an organization. `since`: when the organization started to wait, or null if it has not waited.
   * Returns false if no slot is free, or if waiting tasks of other threads take precedence.
   */
  take(organization: O, since: number | null): boolean;
  release(organization: O): void;
  /** Number of slots that the organization is using. */
  atWork(organization: O): number;
  /**
   * The time, on the clock of now(), when the organization last got a slot for a task that had waited on another
   * thread.
   */
  lastTurn(organization: O): number;
  /** A monotonic time. */
  now(): number;
  /** Called when this thread has no waiting tasks left. */
  nobodyWaits(): void;
  /**
   * Called after take() has failed for a waiting organization. Calls `notify` once, when another attempt may succeed.
   */
  whenFree(notify: () => void): void;
}

/** A pool that is not shared with other threads. Each release serves the next waiting task. */
class LocalSlotPool<O extends Organization> implements SlotPool<O> {
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

/**
 * One organization's waiting tasks, in arrival order. `since`: when the queue became non-empty, or when the
 * organization last got a slot here.
 */
interface Line {
  readonly waiting: Set<Waiting>;
  weight: number;
  since: number;
}

/** Maximum total weight of all waiting tasks, as a multiple of the maximum for one organization. */
const FULL_LINES = 4;
const RETRY_AFTER_MS = 2_000;

interface FairSlotsOptions {
  budget?: TimeBudget | undefined;
  /**
   * Maximum number of slots per organization, even if no other organization is waiting. Needed for tasks whose duration
   * depends on the client.
   */
  mostOfOne?: number | undefined;
  now?: (() => number) | undefined;
}

export class FairSlots<O extends Organization = Organization> {
  readonly #lines = new Map<O, Line>();
  readonly #taken = new Map<O, { ms: number; at: number }>(); // the part of the budget that has been used
  readonly #pool: SlotPool<O>;
  readonly #budget: TimeBudget | undefined;
  readonly #mostOfOne: number;
  readonly #now: () => number;
  #isFull = false; // the waiting tasks had their turn, but no slot was free
  #looks = false; // waiting for a slot held by another thread
  #weight = 0;
  #wake: NodeJS.Timeout | undefined;

  /**
   * `places`: a pool, or the number of slots. `what`: the tasks' name in error messages. `maxWeight`: maximum total
   * weight of one organization's waiting tasks, in the units of run(); a single task may always wait.
   */
  constructor(
    places: number | SlotPool<O>,
    private readonly what: string,
    private readonly maxWeight: number,
    { budget, mostOfOne = Infinity, now = () => performance.now() }: FairSlotsOptions = {},
  ) {
    this.#budget = budget;
    this.#mostOfOne = mostOfOne;
    this.#now = now;
    this.#pool = typeof places === 'number' ? new LocalSlotPool(places) : places;
  }

  /**
   * Runs the task as soon as it gets a slot. Throws ApiError capacity_exhausted, the signal's reason, or any error from
   * `work`.
   */
  async run<T>(requester: Requester<O>, weight: number, work: () => Promise<T>): Promise<T> {
    const { organization, signal } = requester;
    signal?.throwIfAborted();
    if (!this.take(organization)) await this.#turn(requester, weight);
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      this.release(organization);
    }
  }

  /** Takes a slot immediately, as run() does if no task is waiting. Returns false if the task would have to wait. */
  take(organization: O): boolean {
    return (
      !this.#isFull &&
      this.#delay(organization) === 0 &&
      (this.#mostOfOne === Infinity || this.#pool.atWork(organization) < this.#mostOfOne) &&
      this.#pool.take(organization, null)
    );
  }

  release(organization: O): void {
    this.#pool.release(organization);
    this.#serve();
  }

  /** Charges time that a task took to the organization's budget. */
  charge(organization: O, ms: number): void {
    if (this.#budget === undefined || ms <= 0) return;
    for (const other of this.#taken.keys()) this.#takenBy(other); // forgets organizations whose budget is full again
    this.#taken.set(organization, { ms: this.#takenBy(organization) + ms, at: this.#now() });
  }

  #takenBy(organization: O): number {
    const taken = this.#taken.get(organization);
    if (taken === undefined || this.#budget === undefined) return 0;
    const ms = taken.ms - (this.#now() - taken.at) * this.#budget.msPerMs;
    if (ms > 0) return ms;
    this.#taken.delete(organization);
    return 0;
  }

  /** Milliseconds until part of the organization's budget is available again. */
  #delay(organization: O): number {
    return this.#budget === undefined
      ? 0
      : Math.max(0, Math.ceil((this.#takenBy(organization) - this.#budget.ms) / this.#budget.msPerMs));
  }

  #turn({ organization, signal }: Requester<O>, weight: number): Promise<void> {
    const line = this.#lines.get(organization) ?? { waiting: new Set(), weight: 0, since: this.#pool.now() };
    const isFull = line.weight + weight > this.maxWeight || this.#weight + weight > FULL_LINES * this.maxWeight;
    if (isFull && line.waiting.size > 0) {
      throw apiError('capacity_exhausted', `The queue of ${this.what} is full.`, null, {
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
          // The task's start is deferred, so that many slots that become free in a row do not block the event loop.
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

  /** Assigns free slots to waiting tasks. */
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
        const atWork = this.#pool.atWork(organization);
        if (atWork >= this.#mostOfOne) continue; // its next task starts when one of the running ones ends
        const turn = Math.max(line.since, this.#pool.lastTurn(organization));
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
      this.#isFull = !this.#pool.take(first, since);
      if (this.#isFull) return this.#look();
      this.#resumeFirst(first);
    }
    this.#isFull = false;
    this.#pool.nobodyWaits();
  }

  #look(): void {
    if (this.#looks) return;
    this.#looks = true;
    this.#pool.whenFree(() => {
      this.#looks = false;
      this.#serve();
    });
  }

  #resumeFirst(organization: O): void {
    const line = this.#lines.get(organization);
    const [waiting] = line?.waiting ?? [];
    if (line === undefined || waiting === undefined) return;
    this.#leave(organization, line, waiting);
    line.since = this.#pool.now(); // moves the organization to the end of the queue
    waiting.resume();
  }
}
