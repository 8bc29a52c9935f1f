// When all of a thread's heap is collected. V8 does that by itself a hundred seconds after the last time, whether requests come or not,
// and gives the space of the young back with it: for ten seconds behind it there are ten times as many collections, and compiled
// code that embeds what has gone is compiled anew (docs/guides/upstreams.md). So V8 is told not to (from Node 24 on; before that it has no word
// for it), and each thread collects once nobody has asked anything of it for a minute. Event-loop thread only.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const REST_MS = 60_000;
const LOOK_MS = 5_000;
/** Of V8: the first that can be told how often it may collect to save memory. An older one goes on doing it itself. */
export const TAKES_OVER = Number.parseInt(process.versions.v8, 10) >= 13;
/** Of the space of the young: once it proves too small it has all it may have, and not twice as much again and again. */
const GROWTH = 32;

/** For the whole process, before its threads begin. */
export function tellCollector(): void {
  setFlagsFromString(`--semi-space-growth-factor=${GROWTH}`);
  if (TAKES_OVER) setFlagsFromString('--memory-reducer-gc-count=0');
}

/**
 * Everything that can go, at once: some tens of milliseconds. What is left free is given back to the system. False: nothing was done, as
 * V8's flags are the process's, and another thread took this one away before it had been of use here.
 */
export function collectAll(): boolean {
  setFlagsFromString('--expose-gc'); // for contexts made from here on, which is this one alone
  const collect = runInNewContext('globalThis.gc') as ((how: object) => void) | undefined;
  setFlagsFromString('--no-expose-gc');
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  return collect !== undefined;
}

/** What a thread has to do. */
export interface Work {
  /** Requests that are not answered. */
  readonly inFlight: number;
  /** Of /v1, since the start: who asks whether it lives is no work. */
  readonly answered: number;
}

export class HeapRest {
  readonly #timer: NodeJS.Timeout;
  #answered = 0;
  #since: number;
  #collected = false; // since something was done

  /** Null where V8 does it. */
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

  /** Now and then. */
  look(): void {
    const { inFlight, answered } = this.work;
    if (inFlight > 0 || answered !== this.#answered) {
      this.#answered = answered;
      this.#since = this.now();
      this.#collected = false;
      return;
    }
    if (this.#collected || this.now() - this.#since < REST_MS) return;
    this.#collected = this.collect(); // if not, at the next look
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
