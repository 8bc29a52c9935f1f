// Extends one HTTP worker thread's bus to the threads of other processes, through notifications in the shared database.
// Only messages about stored responses are sent to other processes. Because notifications can be lost, a query is
// repeated until it is answered, and a reader that follows a log also polls the log. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import type { BusTopics, ThreadBus, Topic } from '../../shared/bus.js';
import type { Database } from './database.js';
import { MAX_MESSAGE_BYTES } from './notifications.js';
import { ALIVE } from './process-lease.js';
import type { SharedDatabase } from './shared-database.js';

type Message<T extends Topic> = BusTopics[T]['message'];
type Answer<T extends Topic> = BusTopics[T]['answer'];
type Listener = (message: never) => unknown;
type Logged = BusTopics['response.logged']['message'];

/** Topics of queries to other processes. */
const ASKED: ReadonlySet<Topic> = new Set(['response.cancel', 'response.running']);
const PREFIX = 'bus ';
const TIMEOUT_MS = 1_000;
/** Repetition interval of an unanswered query. */
const AGAIN_MS = 300;
/** Log growth within this time is reported in a single message. */
const GATHER_MS = 40;
const IDS = 100;
/** How long answers are kept in case a query is repeated. */
const KEPT_MS = 30_000;

/** Messages between processes. `n`: number of the query, chosen by its sender. */
type Crossing =
  | { kind: 'logged'; from: string; messages: readonly Logged[] }
  | { kind: 'ask'; from: string; n: number; topic: 'response.cancel' | 'response.running'; message: unknown }
  | { kind: 'answer'; from: string; to: string; n: number; answers: readonly unknown[] };

interface Asked {
  answers: Map<string, readonly unknown[]>;
  look: () => void;
}

const OTHERS = `SELECT id FROM processes WHERE id IN (${ALIVE}) AND id <> $1`;

export class ProcessBus implements ThreadBus {
  readonly #listeners = new Map<Topic, Set<Listener>>();
  readonly #asked = new Map<number, Asked>();
  readonly #answered = new Map<string, Promise<readonly unknown[]>>();
  readonly #grown = new Set<string>();
  #gathering: NodeJS.Timeout | null = null;
  #asks = 0;
  readonly #stop: () => void;

  /** `me`: this thread's lease. */
  constructor(
    private readonly inner: ThreadBus,
    private readonly shared: Pick<SharedDatabase, 'listen' | 'notify'>,
    private readonly database: Database,
    private readonly me: string,
  ) {
    this.#stop = shared.listen((text) => this.#onMessage(text));
  }

  get index(): number {
    return this.inner.index;
  }

  get threads(): number {
    return this.inner.threads;
  }

  readonly alone = false;

  publish<T extends Topic>(topic: T, message: Message<T>): void {
    this.inner.publish(topic, message);
    if (topic === 'response.logged') this.#logged(message as Logged);
  }

  async ask<T extends Topic>(topic: T, message: Message<T>, timeoutMs = TIMEOUT_MS): Promise<Answer<T>[]> {
    if (!ASKED.has(topic)) return this.inner.ask(topic, message, timeoutMs);
    const within = this.inner.ask(topic, message, timeoutMs);
    const others = this.#askOthers(
      topic as 'response.cancel',
      message as Message<'response.cancel'>,
      timeoutMs,
    ) as Promise<Answer<T>[]>;
    // At most one thread can answer yes, so the first positive answer is sufficient.
    const first = await Promise.race([within, others]);
    if ((first as unknown[]).includes(true)) return first;
    return [...(await within), ...(await others)];
  }

  on<T extends Topic>(topic: T, listener: (message: Message<T>) => Answer<T> | Promise<Answer<T>>): () => void {
    const stop = this.inner.on(topic, listener);
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners);
    listeners.add(listener);
    return () => {
      stop();
      listeners.delete(listener);
    };
  }

  /** The inner bus stays open. */
  close(): void {
    this.#stop();
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    for (const { look } of this.#asked.values()) look();
    this.#listeners.clear();
  }

  #send(crossing: Crossing): void {
    void this.shared.notify(`${PREFIX}${JSON.stringify(crossing)}`);
  }

  #logged(message: Logged): void {
    if (message.ended) {
      this.#sendGrown();
      const crossing: Crossing = { kind: 'logged', from: this.me, messages: [message] };
      const fits = Buffer.byteLength(JSON.stringify(crossing)) + PREFIX.length <= MAX_MESSAGE_BYTES;
      this.#send(fits ? crossing : { ...crossing, messages: [{ id: message.id, ended: true }] });
      return;
    }
    this.#grown.add(message.id);
    this.#gathering ??= setTimeout(() => this.#sendGrown(), GATHER_MS).unref();
  }

  #sendGrown(): void {
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    this.#gathering = null;
    const ids = [...this.#grown];
    this.#grown.clear();
    for (let at = 0; at < ids.length; at += IDS)
      this.#send({
        kind: 'logged',
        from: this.me,
        messages: ids.slice(at, at + IDS).map((id) => ({ id, ended: false })),
      });
  }

  /**
   * Repeats the query until a thread answers yes, all running threads have answered, or the timeout has elapsed. Never
   * rejects.
   */
  async #askOthers(
    topic: 'response.cancel' | 'response.running',
    message: unknown,
    timeoutMs: number,
  ): Promise<unknown[]> {
    const n = ++this.#asks;
    const end = performance.now() + timeoutMs;
    const answers = new Map<string, readonly unknown[]>();
    const said = (): unknown[] => [...answers.values()].flat();
    try {
      while (performance.now() < end) {
        const others = (await this.database.query<{ id: string }>(OTHERS, [this.me])).map(({ id }) => id);
        if (others.every((id) => answers.has(id))) break;
        const looked = new Promise<void>((done) => {
          const timer = setTimeout(done, Math.min(AGAIN_MS, Math.max(1, end - performance.now())));
          this.#asked.set(n, {
            answers,
            look: () => {
              if (!said().includes(true) && !others.every((id) => answers.has(id))) return;
              clearTimeout(timer);
              done();
            },
          });
        });
        this.#send({ kind: 'ask', from: this.me, n, topic, message });
        await looked;
        if (said().includes(true)) break;
      }
    } catch {
      // The database is unreachable, so no other process can be queried.
    }
    this.#asked.delete(n);
    return said();
  }

  #onMessage(text: string): void {
    if (!text.startsWith(PREFIX)) return;
    const crossing = crossingIn(text.slice(PREFIX.length));
    if (crossing === null || crossing.from === this.me) return;
    if (crossing.kind === 'answer') {
      const asked = crossing.to === this.me ? this.#asked.get(crossing.n) : undefined;
      asked?.answers.set(crossing.from, crossing.answers);
      asked?.look();
    } else if (crossing.kind === 'logged') {
      for (const message of crossing.messages) void this.#answers('response.logged', message);
    } else {
      void this.#answer(crossing);
    }
  }

  async #answer({ from, n, topic, message }: Extract<Crossing, { kind: 'ask' }>): Promise<void> {
    const key = `${from} ${n}`;
    let answers = this.#answered.get(key);
    if (answers === undefined) {
      this.#answered.set(key, (answers = this.#answers(topic, message)));
      setTimeout(() => this.#answered.delete(key), KEPT_MS).unref();
    }
    this.#send({ kind: 'answer', from: this.me, to: from, n, answers: await answers });
  }

  /**
   * Waits for all listeners and returns the last one's answer as a one-element list; [] if there is no listener or the
   * last one failed. Never rejects.
   */
  async #answers(topic: Topic, message: unknown): Promise<readonly unknown[]> {
    const answers = [...(this.#listeners.get(topic) ?? [])].map((listener) =>
      (async (): Promise<unknown[]> => [await listener(message as never)])().catch(() => []),
    );
    return (await Promise.all(answers)).at(-1) ?? [];
  }
}

/**
 * Returns null if the message is not valid. Any client of the database can send notifications, and newer releases may
 * use other formats.
 */
function crossingIn(text: string): Crossing | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { kind, from, to, n, topic, message, messages, answers } = value as Record<string, unknown>;
  if (typeof from !== 'string') return null;
  switch (kind) {
    case 'logged':
      return Array.isArray(messages) && messages.every(hasId) ? (value as Crossing) : null;
    case 'ask':
      return typeof n === 'number' && ASKED.has(topic as Topic) && hasId(message) ? (value as Crossing) : null;
    case 'answer':
      return typeof to === 'string' && typeof n === 'number' && Array.isArray(answers) ? (value as Crossing) : null;
    default:
      return null;
  }
}

const hasId = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'string';
