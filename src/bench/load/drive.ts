// One thread's share of a run: starts sessions when they are due, sends their requests one after another, and records
// each. Latencies count from when a request was due, not from when a concurrency slot became free.

import { performance } from 'node:perf_hooks';
import { setTimeout as after } from 'node:timers/promises';
import { arrivalTimes } from './arrivals.js';
import { LoadClient } from './client.js';
import type { Asked } from './client.js';
import type { Exchange, Question } from './dialects/dialect.js';
import { Ledger } from './ledger.js';
import type { LedgerMemory } from './ledger.js';
import { ConcurrencySlots } from './concurrency-slots.js';
import type { LoadRun, RequestRecord, Session } from './types.js';
import { openWorkload } from './workload.js';
import type { Workload } from './workload.js';

/** This thread's index and the number of threads. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

/** Pause after a failure in a closed loop. Without it, the loop would retry at full speed. */
const PAUSE_AFTER_FAILURE_MS = 200;

export interface DriveResult {
  readonly records: RequestRecord[];
  readonly utilization: number;
  readonly cpuSeconds: number;
  /** Delays between due time and sending, for requests that did not wait for a slot. */
  readonly lags: Float32Array;
}

export class Drive {
  readonly #ledger: Ledger;
  readonly #client: LoadClient;
  readonly #workload: Workload;
  readonly #slots: ConcurrencySlots | null;
  readonly #records: RequestRecord[] = [];
  readonly #lags: number[] = [];
  readonly #halt = new AbortController();

  #startedAt = 0;

  constructor(
    private readonly run: LoadRun,
    memory: LedgerMemory,
    private readonly share: Share,
    private readonly onRecord?: (record: RequestRecord) => void,
  ) {
    this.#ledger = new Ledger(memory, run.warmup, run.length);
    this.#client = new LoadClient(run.target, () => this.now());
    this.#workload = openWorkload(run.workload, run.measure);
    const own = run.maxConcurrency === null ? null : portion(run.maxConcurrency, share);
    this.#slots = own === null || run.arrival.kind === 'closed' ? null : new ConcurrencySlots(Math.max(1, own));
  }

  now(): number {
    return performance.timeOrigin + performance.now() - this.#startedAt;
  }

  /** Resolves when the last response is complete. `startedAt`: epoch milliseconds, the same on all threads. */
  async go(startedAt: number): Promise<DriveResult> {
    this.#startedAt = startedAt;
    const before = performance.eventLoopUtilization();
    const cpu = process.cpuUsage();
    const { arrival } = this.run;
    const all =
      arrival.kind === 'closed' ? this.#closed(portion(arrival.concurrency, this.share)) : this.#open(arrival);
    await this.#withGrace(all);
    this.#client.close();
    const { user, system } = process.cpuUsage(cpu);
    const { utilization } = performance.eventLoopUtilization(before);
    return {
      records: this.#records,
      utilization,
      cpuSeconds: (user + system) / 1e6,
      lags: Float32Array.from(this.#lags),
    };
  }

  /** Starts no further requests, and cancels requests that are running or waiting for a slot. */
  stop(): void {
    this.#ledger.spend();
    this.#halt.abort();
    this.#client.close();
  }

  /** Releases the resources. */
  end(): void {
    this.stop();
  }

  /** After the last request has started, running requests may continue for the run's grace period. */
  async #withGrace(all: Promise<void>): Promise<void> {
    let isOver = false;
    const watch = async (): Promise<void> => {
      while (!isOver && !this.#ledger.isSpent) await this.#sleep(50);
      for (const end = this.now() + this.run.graceMs; !isOver && this.now() < end; ) await this.#sleep(50);
      if (!isOver) this.stop();
    };
    const watching = watch();
    await all;
    isOver = true;
    await watching;
  }

  async #closed(slots: number): Promise<void> {
    await Promise.all(
      Array.from({ length: slots }, async () => {
        while (!this.#ledger.isSpent) {
          const number = this.#ledger.nextSession();
          const session = this.#workload.session(number);
          if (session === null) return;
          const fine = await this.#converse(number, session, this.now());
          if (!fine && !this.#ledger.isSpent) await this.#sleep(PAUSE_AFTER_FAILURE_MS);
        }
      }),
    );
  }

  async #open(arrival: Exclude<LoadRun['arrival'], { kind: 'closed' }>): Promise<void> {
    const running = new Set<Promise<unknown>>();
    let number = -1;
    for (const at of arrivalTimes(arrival, this.run.seed, (session) => this.#workload.at(session))) {
      number++;
      if (number % this.share.count !== this.share.index) continue;
      // The request is prepared before it is due.
      const session = this.#workload.session(number);
      if (session === null) break;
      for (let wait = at - this.now(); wait > 0 && !this.#ledger.isSpent; wait = at - this.now())
        await this.#sleep(Math.min(1000, Math.ceil(wait)));
      if (this.#ledger.isSpent) break;
      const conversation = this.#converse(number, session, at);
      running.add(conversation);
      void conversation.finally(() => running.delete(conversation));
    }
    await Promise.all(running);
  }

  /**
   * Runs a session's turns. `at`: when the first turn is due. Returns false if a turn failed; later turns depend on it,
   * so they are skipped.
   */
  async #converse(number: number, session: Session, at: number): Promise<boolean> {
    const before: Exchange[] = [];
    let previous: string | null = null;
    let intended = at;
    for (const [place, turn] of session.turns.entries()) {
      if (place > 0 && turn.thinkMs > 0) await this.#sleep(turn.thinkMs);
      if (place > 0) intended = this.now();
      const question: Question = {
        system: session.system,
        before,
        turn,
        stored: this.run.conversation === 'stored' ? { previous } : null,
      };
      const asked = await this.#ask(question, number, place, intended);
      if (asked === null) return true;
      if (asked.error !== null) return false;
      before.push({ user: turn.text, answer: asked.answer.text });
      previous = asked.answer.id;
    }
    return true;
  }

  /** Null if no more requests should be sent. */
  async #ask(question: Question, session: number, turn: number, intended: number): Promise<Asked | null> {
    const phase = this.#ledger.admit(intended);
    if (phase === null) return null;
    const body = this.#client.write(question);
    const waited = this.#slots !== null && !this.#slots.take();
    if (waited) await this.#slots?.wait();
    this.#ledger.begin();
    const asked = await this.#client.ask(body);
    this.#slots?.leave();
    const { answer, error, sent, headers, firstToken, end, gaps, status } = asked;
    if (!waited) this.#lags.push(sent - intended);
    this.#ledger.end(
      error === null ? 'answered' : error.kind === 'cancelled' ? 'cancelled' : 'failed',
      answer.outputTokens ?? 0,
    );
    const { promptTokens, maxTokens } = question.turn;
    const record: RequestRecord = {
      session,
      turn,
      phase,
      intended,
      sent,
      headers,
      firstToken,
      end,
      gaps,
      status,
      error,
      finish: answer.finish,
      wanted: { promptTokens: turn === 0 ? promptTokens : null, outputTokens: maxTokens },
      promptTokens: answer.promptTokens,
      cachedTokens: answer.cachedTokens,
      outputTokens: answer.outputTokens,
    };
    this.#records.push(record);
    this.onRecord?.(record);
    return asked;
  }

  /** Ends early when the run is stopped. */
  async #sleep(ms: number): Promise<void> {
    await after(ms, undefined, { signal: this.#halt.signal }).catch(() => undefined);
  }
}

/** Returns this thread's share of `total`. The remainder of the division goes to the first few threads, one each. */
const portion = (total: number, { index, count }: Share): number =>
  Math.floor(total / count) + (index < total % count ? 1 : 0);
