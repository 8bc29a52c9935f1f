// The message bus of a server with several threads: a star with the main thread at the center. Every worker has one
// message port to the main thread, which forwards a worker's publications and asks to the other workers, so that
// workers need no references to each other. Ports do not keep a thread alive. Each class is used only on its own
// thread.

import type { MessagePort } from 'node:worker_threads';
import type { BusTopics, ThreadBus, Topic } from '../../shared/bus.js';

type Message<T extends Topic> = BusTopics[T]['message'];
type Answer<T extends Topic> = BusTopics[T]['answer'];
type Listener = (message: never) => unknown;

/** Messages sent through a port. The sender of an `ask` assigns its `id`. */
type Crossing =
  | { kind: 'publish'; topic: Topic; message: unknown }
  | { kind: 'ask'; id: number; topic: Topic; message: unknown; timeoutMs: number }
  | { kind: 'answers'; id: number; answers: unknown[] };

const TIMEOUT_MS = 1_000;
// How much longer a worker waits for its answers than the main thread waits for the other threads.
const HUB_SLACK_MS = 250;

/** One thread's listeners. */
class Listeners {
  readonly #byTopic = new Map<Topic, Set<Listener>>();

  constructor(private readonly onError: (error: unknown, topic: Topic) => void) {}

  add(topic: Topic, listener: Listener): () => void {
    const listeners = this.#byTopic.get(topic) ?? new Set();
    this.#byTopic.set(topic, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byTopic.get(topic) === listeners) this.#byTopic.delete(topic);
    };
  }

  notify(topic: Topic, message: unknown): void {
    void this.answers(topic, message);
  }

  /**
   * Waits for all listeners and returns the last one's answer as a one-element list; [] if there is no listener or the
   * last one failed. Never rejects.
   */
  async answers(topic: Topic, message: unknown): Promise<unknown[]> {
    const answers = [...(this.#byTopic.get(topic) ?? [])].map((listener) =>
      (async (): Promise<unknown[]> => [await listener(message as never)])().catch((error: unknown) => {
        this.onError(error, topic);
        return [];
      }),
    );
    return (await Promise.all(answers)).at(-1) ?? [];
  }

  clear(): void {
    this.#byTopic.clear();
  }
}

/** Asks sent through ports that have neither been answered nor timed out. */
class Asks {
  readonly #open = new Map<number, (answers: unknown[]) => void>();
  #next = 1;

  /**
   * `send` receives the ID for the ask. If it throws because the message cannot be cloned, ask() rejects with that
   * error.
   */
  ask(timeoutMs: number, send: (id: number) => void): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      const timer = setTimeout(() => this.answered(id, []), timeoutMs);
      this.#open.set(id, (answers) => {
        clearTimeout(timer);
        this.#open.delete(id);
        resolve(answers);
      });
      try {
        send(id);
      } catch (error) {
        clearTimeout(timer);
        this.#open.delete(id);
        reject(error as Error);
      }
    });
  }

  answered(id: number, answers: unknown[]): void {
    this.#open.get(id)?.(answers);
  }

  close(): void {
    for (const settle of [...this.#open.values()]) settle([]);
  }
}

/** Sends the answers, or an empty list if they cannot be cloned. */
function sendAnswers(port: MessagePort, id: number, answers: unknown[], onError: (error: unknown) => void): void {
  try {
    port.postMessage({ kind: 'answers', id, answers } satisfies Crossing);
  } catch (error) {
    onError(error);
    port.postMessage({ kind: 'answers', id, answers: [] } satisfies Crossing);
  }
}

export interface BusOptions {
  threads: number;
  /** Called when a listener fails. */
  onError?: (error: unknown, topic: Topic) => void;
}

/** The main thread's end of the bus. */
export class HubBus implements ThreadBus {
  readonly index = 0;
  readonly threads: number;
  readonly alone = false;
  readonly #listeners: Listeners;
  readonly #onError: (error: unknown, topic: Topic) => void;
  readonly #workers = new Map<number, { port: MessagePort; asks: Asks }>();

  constructor({ threads, onError = () => undefined }: BusOptions) {
    this.threads = threads;
    this.#onError = onError;
    this.#listeners = new Listeners(onError);
  }

  /** `port`: port of the worker with this index. Any previous worker with the same index is removed. */
  add(index: number, port: MessagePort): void {
    this.remove(index);
    const worker = { port, asks: new Asks() };
    this.#workers.set(index, worker);
    port.on('message', (crossing: Crossing) => {
      switch (crossing.kind) {
        case 'publish':
          this.#notify(crossing.topic, crossing.message, index);
          this.#listeners.notify(crossing.topic, crossing.message);
          break;
        case 'ask':
          void this.#askFor(index, port, crossing);
          break;
        case 'answers':
          worker.asks.answered(crossing.id, crossing.answers);
      }
    });
    port.unref();
  }

  /** Removes a worker and resolves the asks that are waiting for it. */
  remove(index: number): void {
    const worker = this.#workers.get(index);
    if (worker === undefined) return;
    this.#workers.delete(index);
    worker.port.close();
    worker.asks.close();
  }

  publish<T extends Topic>(topic: T, message: Message<T>): void {
    this.#notify(topic, message, this.index);
  }

  async ask<T extends Topic>(topic: T, message: Message<T>, timeoutMs = TIMEOUT_MS): Promise<Answer<T>[]> {
    return (await this.#ask(topic, message, timeoutMs, this.index)) as Answer<T>[];
  }

  on<T extends Topic>(topic: T, listener: (message: Message<T>) => Answer<T> | Promise<Answer<T>>): () => void {
    return this.#listeners.add(topic, listener as Listener);
  }

  close(): void {
    for (const index of [...this.#workers.keys()]) this.remove(index);
    this.#listeners.clear();
  }

  #notify(topic: Topic, message: unknown, from: number): void {
    for (const [index, { port }] of this.#workers)
      if (index !== from) port.postMessage({ kind: 'publish', topic, message } satisfies Crossing);
  }

  async #ask(topic: Topic, message: unknown, timeoutMs: number, from: number): Promise<unknown[]> {
    const others = [...this.#workers].filter(([index]) => index !== from);
    const answers = await Promise.all(
      others.map(([, { port, asks }]) =>
        asks.ask(timeoutMs, (id) =>
          port.postMessage({ kind: 'ask', id, topic, message, timeoutMs } satisfies Crossing),
        ),
      ),
    );
    return answers.flat();
  }

  async #askFor(
    from: number,
    port: MessagePort,
    { id, topic, message, timeoutMs }: Extract<Crossing, { kind: 'ask' }>,
  ): Promise<void> {
    const [mine, others] = await Promise.all([
      within(timeoutMs, this.#listeners.answers(topic, message)),
      this.#ask(topic, message, timeoutMs, from),
    ]);
    sendAnswers(port, id, [...mine, ...others], (error) => this.#onError(error, topic));
  }
}

/** A worker's end of the bus. */
export class PortBus implements ThreadBus {
  readonly threads: number;
  readonly alone = false;
  readonly #listeners: Listeners;
  readonly #asks = new Asks();

  constructor(
    readonly index: number,
    private readonly port: MessagePort,
    { threads, onError = () => undefined }: BusOptions,
  ) {
    this.threads = threads;
    this.#listeners = new Listeners(onError);
    port.on('message', (crossing: Crossing) => {
      switch (crossing.kind) {
        case 'publish':
          this.#listeners.notify(crossing.topic, crossing.message);
          break;
        case 'ask':
          void this.#listeners
            .answers(crossing.topic, crossing.message)
            .then((answers) => sendAnswers(port, crossing.id, answers, (error) => onError(error, crossing.topic)));
          break;
        case 'answers':
          this.#asks.answered(crossing.id, crossing.answers);
      }
    });
    port.unref();
  }

  publish<T extends Topic>(topic: T, message: Message<T>): void {
    this.port.postMessage({ kind: 'publish', topic, message } satisfies Crossing);
  }

  async ask<T extends Topic>(topic: T, message: Message<T>, timeoutMs = TIMEOUT_MS): Promise<Answer<T>[]> {
    return (await this.#asks.ask(timeoutMs + HUB_SLACK_MS, (id) => {
      this.port.postMessage({ kind: 'ask', id, topic, message, timeoutMs } satisfies Crossing);
    })) as Answer<T>[];
  }

  on<T extends Topic>(topic: T, listener: (message: Message<T>) => Answer<T> | Promise<Answer<T>>): () => void {
    return this.#listeners.add(topic, listener as Listener);
  }

  close(): void {
    this.port.close();
    this.#asks.close();
    this.#listeners.clear();
  }
}

/** Resolves to [] on timeout. */
async function within(timeoutMs: number, answers: Promise<unknown[]>): Promise<unknown[]> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<unknown[]>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, []);
  });
  try {
    return await Promise.race([answers, late]);
  } finally {
    clearTimeout(timer);
  }
}
