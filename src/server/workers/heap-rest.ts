// Decides when a thread runs a full garbage collection. By default, V8 runs one a hundred seconds after the previous
// one, even while requests are arriving, and also shrinks the young generation. For ten seconds after that, ten times
// as many collections run, and compiled code that embeds collected objects is recompiled (docs/guides/upstreams.md). A
// V8 flag (Node 24 and later) turns this off. With it, each thread instead runs a full collection after a minute
// without requests. Event-loop thread only.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const REST_MS = 60_000;
const LOOK_MS = 5_000;
/**
 * Whether this V8 version has a flag that turns off its memory-reducing collections. Older versions keep running them.
 */
export const TAKES_OVER = Number.parseInt(process.versions.v8, 10) >= 13;
/** When the young generation is too small, it grows to its maximum in one step instead of doubling repeatedly. */
const GROWTH = 32;

/** Takes effect for the whole process. Must be called before any thread starts. */
export function tuneCollector(): void {
  setFlagsFromString(`--semi-space-growth-factor=${GROWTH}`);
  if (TAKES_OVER) setFlagsFromString('--memory-reducer-gc-count=0');
}

/**
 * Runs a full collection in one blocking call, which takes tens of milliseconds, and returns free memory to the
 * operating system. Returns false if nothing was collected: V8's flags are process-wide, so another thread may have
 * reset --expose-gc before it took effect here.
 */
export function collectAll(): boolean {
  setFlagsFromString('--expose-gc'); // applies to contexts created from now on: only the one in the next line
  const collect = runInNewContext('globalThis.gc') as ((how: object) => void) | undefined;
  setFlagsFromString('--no-expose-gc');
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  return collect !== undefined;
}

/** The thread's load. */
export interface Work {
  /** Number of requests whose response is not complete. */
  readonly inFlight: number;
  /** Number of /v1 requests completed since startup. Health checks do not count. */
  readonly answered: number;
}

export class HeapRest {
  readonly #timer: NodeJS.Timeout;
  #answered = 0;
  #since: number;
  #collected = false; // garbage has been collected since the last activity

  /** Returns null if V8 runs these collections itself. */
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

  /** Checks whether to collect. Called periodically. */
  look(): void {
    const { inFlight, answered } = this.work;
    if (inFlight > 0 || answered !== this.#answered) {
      this.#answered = answered;
      this.#since = this.now();
      this.#collected = false;
      return;
    }
    if (this.#collected || this.now() - this.#since < REST_MS) return;
    this.#collected = this.collect(); // on failure, retried at the next call
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
