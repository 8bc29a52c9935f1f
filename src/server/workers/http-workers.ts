// The main thread's control of the HTTP workers: starts them, distributes accepted connections among their HTTP
// servers, restarts lost workers, and stops them. Main thread only.
import { setTimeout as sleep } from 'node:timers/promises';
import { MessageChannel, Worker } from 'node:worker_threads';
import type { Config } from '../../config/settings.js';
import { StartError } from '../../shared/errors.js';
import type { HttpServer } from '../../http/app.js';
import type { SharedState } from '../shared-state.js';
import { stderrLog } from '../../telemetry/log-writer.js';
import type { Log } from '../../telemetry/types.js';
import type { HubBus } from './hub-bus.js';
import { ThreadStates } from '../../shared/thread-states.js';
import type { WorkerNews, WorkerOrder, WorkerStart } from './worker.js';

/** Maximum number of restarts within the window, across all workers. Beyond that, a lost worker is not restarted. */
const MAX_RESTARTS = 5;
const RESTART_WINDOW_MS = 600_000;
const RESTART_PAUSE_MS = 500;
/** How long an orderly shutdown may take before the worker is terminated. */
const CLOSE_MS = 5_000;

export interface AnsweringOptions {
  config: Config;
  shared: SharedState;
  bus: HubBus;
  /** The main thread's HTTP server, which accepts the connections. */
  http: HttpServer;
  log: Log;
  /** Called when a worker is lost, to release everything it held. */
  onLost(index: number): void;
}

interface Answering {
  readonly index: number;
  readonly worker: Worker;
  readonly opened: Promise<void>;
  readonly loaded: Promise<void>;
  readonly idle: Promise<void>;
  readonly exited: Promise<void>;
  descriptor: unknown;
  /**
   * Whether the worker has been ordered to close. If so, it gets no connections, even if it becomes ready only
   * after the order.
   */
  ending: boolean;
  /** Why the worker ended, if it reported a reason. */
  reason: string | null;
}

/** All instances in this process. The process must not exit before their workers have ended. */
const running = new Set<HttpWorkers>();

/** Ends all HTTP workers, waiting at most `timeoutMs`. Must be called before process.exit(). */
export async function closeAnsweringThreads(timeoutMs: number): Promise<void> {
  if (running.size === 0) return;
  await Promise.race([Promise.all([...running].map((threads) => threads.close())), sleep(timeoutMs)]);
}

export class HttpWorkers {
  readonly #threads = new Map<number, Answering>();
  readonly #states: ThreadStates;
  readonly #restarts: number[] = [];
  #first: readonly Answering[] = []; // set once all workers are open
  #draining = false;
  #closing: Promise<void> | null = null;

  private constructor(private readonly options: AnsweringOptions) {
    this.#states = new ThreadStates(options.shared.threads);
  }

  /**
   * Resolves when all workers accept connections. If one fails to start, stops the others and rejects with StartError.
   */
  static async start(options: AnsweringOptions): Promise<HttpWorkers> {
    const all = new HttpWorkers(options);
    running.add(all);
    try {
      const threads = Array.from({ length: options.config.http.threads }, (_, at) => all.#start(at + 1));
      await Promise.all(threads.map(({ opened }) => opened));
      all.#first = threads;
    } catch (error) {
      await all.close();
      throw error;
    }
    return all;
  }

  /** Number of running workers. */
  get size(): number {
    return this.#threads.size;
  }

  /** Resolves when every worker is serving its models. Rejects with StartError if a worker ends before that. */
  async loaded(): Promise<void> {
    await Promise.all(this.#first.map(({ loaded }) => loaded));
  }

  /** Makes every worker's /readyz report that this server is about to shut down. */
  unready(): void {
    for (const thread of this.#threads.values()) send(thread, 'unready');
  }

  /** Makes every worker refuse new requests. Resolves when no request is running. */
  async drain(): Promise<void> {
    this.#draining = true;
    await Promise.all(
      [...this.#threads.values()].map((thread) => {
        send(thread, 'drain');
        return Promise.race([thread.idle, thread.exited]);
      }),
    );
  }

  /** Stops accepting connections and ends the workers, which aborts requests in flight. Idempotent. */
  close(): Promise<void> {
    this.options.http.stopListening(); // otherwise the main thread would serve connections once there are no workers
    this.#closing ??= Promise.all([...this.#threads.values()].map((thread) => this.#end(thread))).then(() => {
      running.delete(this);
    });
    return this.#closing;
  }

  /** Closes a worker's connections and restarts it. Resolves when the old worker has ended. */
  async replace(index: number, reason: string): Promise<void> {
    const thread = this.#threads.get(index);
    if (thread === undefined) return;
    thread.reason ??= reason;
    await this.#end(thread);
  }

  /** New connections are sent to the other workers. Running requests have `drain_ms` to finish. */
  async #drainAndReplace(thread: Answering, reason: string): Promise<void> {
    thread.reason ??= reason;
    this.#release(thread);
    send(thread, 'drain');
    await Promise.race([
      thread.idle,
      thread.exited,
      sleep(this.options.config.engine.drain_ms, undefined, { ref: false }),
    ]);
    if (this.#closing === null && this.#threads.get(thread.index) === thread) await this.#end(thread);
  }

  async #end(thread: Answering): Promise<void> {
    thread.ending = true;
    this.#release(thread);
    send(thread, 'close');
    await Promise.race([thread.exited, sleep(CLOSE_MS, undefined, { ref: false })]);
    await thread.worker.terminate();
  }

  #start(index: number): Answering {
    const { config, shared, bus } = this.options;
    const { port1, port2 } = new MessageChannel();
    const start: WorkerStart = { config, index, threads: config.http.threads, shared, bus: port2 };
    this.#states.set(index, 'starting');
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      name: `http-${index}`,
      workerData: start,
      transferList: [port2],
    });
    bus.add(index, port1);
    const opened = deferred();
    const loaded = deferred();
    const idle = deferred();
    const exited = deferred();
    const thread: Answering = {
      index,
      worker,
      opened: opened.promise,
      loaded: loaded.promise,
      idle: idle.promise,
      exited: exited.promise,
      descriptor: null,
      ending: false,
      reason: null,
    };
    this.#threads.set(index, thread);
    worker.on('message', (news: WorkerNews) => {
      switch (news.type) {
        case 'open':
          if (thread.ending) return;
          thread.descriptor = news.descriptor;
          this.options.http.addThread(news.descriptor);
          if (this.#draining) send(thread, 'drain');
          opened.resolve();
          break;
        case 'loaded':
          this.#states.set(index, 'serving');
          loaded.resolve();
          break;
        case 'idle':
          idle.resolve();
          break;
        case 'log':
          stderrLog.write(news.line);
          break;
        case 'spent':
          void this.replace(index, news.reason);
          break;
        case 'failing':
          void this.#drainAndReplace(thread, news.reason);
          break;
        case 'failed':
          thread.reason = news.reason;
          void worker.terminate(); // safe to terminate directly, because it has no connections yet
      }
    });
    worker.on('error', (error: unknown) => {
      thread.reason ??= error instanceof Error ? error.message : String(error);
    });
    worker.on('exit', () => {
      const failure = new StartError(thread.reason ?? 'An HTTP worker exited during startup.');
      opened.reject(failure);
      loaded.reject(failure);
      this.#ended(thread);
      exited.resolve();
    });
    // If these promises are not awaited, a rejection is only logged.
    for (const { promise } of [opened, loaded]) promise.catch(() => undefined);
    return thread;
  }

  #ended(thread: Answering): void {
    const { bus, log, onLost } = this.options;
    const { index, reason } = thread;
    this.#release(thread);
    bus.remove(index);
    this.#threads.delete(index);
    if (this.#closing !== null || this.#first.length === 0) return;
    this.#states.set(index, 'starting');
    onLost(index);
    log.error(
      { answering_thread: index, reason, left: this.#threads.size },
      'HTTP worker lost, its connections are closed; restarting',
    );
    void this.#restart(index);
  }

  /** Stops sending connections to this worker. */
  #release(thread: Answering): void {
    if (thread.descriptor === null) return;
    this.options.http.removeThread(thread.descriptor);
    thread.descriptor = null;
  }

  async #restart(index: number): Promise<void> {
    const { log } = this.options;
    await sleep(RESTART_PAUSE_MS, undefined, { ref: false });
    if (this.#closing !== null || this.#draining) return;
    const now = performance.now();
    while (this.#restarts[0] !== undefined && now - this.#restarts[0] > RESTART_WINDOW_MS) this.#restarts.shift();
    if (this.#restarts.length >= MAX_RESTARTS) {
      this.#states.set(index, 'lost');
      log.error(
        { answering_thread: index, left: this.#threads.size },
        'HTTP workers were lost too often: this one is not restarted until the server is restarted',
      );
      return;
    }
    this.#restarts.push(now);
    this.#start(index).loaded.then(
      () => log.info({ answering_thread: index }, 'HTTP worker is serving again'),
      () => undefined,
    );
  }
}

function send({ worker }: Answering, order: WorkerOrder): void {
  worker.postMessage(order);
}

interface Deferred {
  promise: Promise<void>;
  resolve(): void;
  reject(error: Error): void;
}

function deferred(): Deferred {
  let resolve!: () => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
