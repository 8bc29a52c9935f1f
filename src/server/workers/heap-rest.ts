// Decides when a thread runs a full garbage collection. By default, V8 runs one a hundred seconds after the last one,
// even if requests are arriving, and shrinks the young generation at the same time. For the next ten seconds, there are
// ten times as many collections, and compiled code that embeds collected objects is recompiled
// (docs/guides/upstreams.md). A flag turns this off in V8 (from Node 24 on; older versions have no flag for it), and
// each thread runs a collection after a minute without requests. Event-loop thread only.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const REST_MS = 60_000;
const LOOK_MS = 5_000;
/**
 * The first V8 version with a flag that turns off its memory-saving collections. Older versions keep running their own.
 */
export const TAKES_OVER = Number.parseInt(process.versions.v8, 10) >= 13;
/** When the young generation is too small, it grows to its maximum in one step instead of doubling repeatedly. */
const GROWTH = 32;

/** Takes effect for the whole process. Call it before the threads start. */
export function tuneCollector(): void {
  setFlagsFromString(`--semi-space-growth-factor=${GROWTH}`);
  if (TAKES_OVER) setFlagsFromString('--memory-reducer-gc-count=0');
}

/**
 * Collects everything in one blocking call, which takes some tens of milliseconds, and returns free memory to the
 * operating system. Returns false if nothing was collected: V8's flags apply to the whole process, and another thread
 * has reset this one before it took effect here.
 */
export function collectAll(): boolean {
  setFlagsFromString('--expose-gc'); // applies to contexts created from now on, which is only the next one
  const collect = runInNewContext('globalThis.gc') as ((how: object) => void) | undefined;
  setFlagsFromString('--no-expose-gc');
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  return collect !== undefined;
}

/** The thread's load. */
export interface Work {
  /** Number of requests whose response is not complete. */
  readonly inFlight: number;
  /** Number of completed /v1 requests since the start. Health checks do not count. */
  readonly answered: number;
}

export class HeapRest {
  readonly #timer: NodeJS.Timeout;
  #answered = 0;
  #since: number;
  #collected = false; // whether garbage was collected since the last activity

  /** Null if V8 collects by itself. */
  static start(work: Work): HeapRest | null {
    return TAKES_OVER ? new HeapRest(work) : null;
  }

  constructor(
    private readonly work: Work,
    private readonly collect: () => boolean = collectAll,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#since = now();
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** Called periodically. */
  look(): void {
    const { inFlight, answered } = this.work;
    if (inFlight > 0 || answered !== this.#answered) {
      this.#answered = answered;
      this.#since = this.now();
      this.#collected = false;
      return;
    }
    if (this.#collected || this.now() - this.#since < REST_MS) return;
    this.#collected = this.collect(); // on failure, tries again at the next call
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
