// The connection to the Redis server that holds the shared counters. If a call is not answered within the timeout, the
// connection is dropped, all pending calls fail immediately, and reconnecting is retried until it succeeds. Therefore,
// no request waits longer than the timeout for a slow server, and none waits while the connection is down. Commands are
// sent and answered in the order of the calls. Event-loop thread only.

import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { ActiveSet } from '../../shared/active-set.js';
import { SCRIPTS, type ScriptName } from './scripts.js';

/**
 * Thrown if no reply was received, so that it is unknown whether Redis executed the call. The message is for the log.
 */
export class ConnectionLost extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'ConnectionLost';
  }
}

export type CallOutcome = 'answered' | 'late' | 'failed';

export interface RedisConnectionOptions {
  /** redis://[user:password@]host[:port][/database], or rediss:// for TLS. */
  url: string;
  /** Timeout per call. */
  timeoutMs: number;
  /**
   * Brings Redis up to date with this process after connecting. The connection counts as up once this has resolved.
   * Calls made within attach() are sent before all others.
   */
  attach(): Promise<void>;
  /** Called when a connection that was up has been lost. */
  lost(reason: string): void;
  /** Called after every call. */
  called?(script: ScriptName, outcome: CallOutcome, seconds: number): void;
}

/** Timeout for connecting, until the server reports that it is ready. */
const CONNECT_MS = 2_000;
const CLOSED = 'the connection was closed';
/** Errors from a connection that was accepted but closed before any reply. */
const CUT = /EPIPE|ECONNRESET|closed/i;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** Maximum number of pending calls. Another call fails and drops the connection. */
const MAX_WAITING = 100_000;

const HASHES = Object.fromEntries(
  Object.entries(SCRIPTS).map(([name, text]) => [name, createHash('sha1').update(text).digest('hex')]),
) as Record<ScriptName, string>;

export class RedisConnection {
  #redis: Redis | null = null;
  #up = false;
  #closed = false;
  #reason = 'never connected';
  readonly #waiting = new ActiveSet<(error: Error) => void>();
  #dropped: () => void = () => undefined;
  #closing: () => void = () => undefined;
  readonly #close = new Promise<void>((resolve) => {
    this.#closing = resolve;
  });

  constructor(private readonly options: RedisConnectionOptions) {}

  /**
   * Starts connecting, and reconnects until close(). Resolves once the connection is up. Rejects with ConnectionLost if
   * it is not up within `withinMs`.
   */
  async open(withinMs: number): Promise<void> {
    const up = new Promise<void>((resolve) => {
      void this.#keepConnected(resolve);
    });
    const late = new AbortController();
    await Promise.race([
      up,
      sleep(withinMs, undefined, { signal: late.signal }).then(() => {
        throw new ConnectionLost(this.#reason);
      }),
    ]).finally(() => late.abort());
  }

  /** Whether the connection is established and attach() has completed. */
  get up(): boolean {
    return this.#up;
  }

  /** Whether calls can be sent. This is the case if the connection is up or attach() is running. */
  get connected(): boolean {
    return this.#redis !== null;
  }

  /** Why the connection is down, or why it was last lost. */
  get reason(): string {
    return this.#reason;
  }

  /** Runs a script. Rejects with ConnectionLost. */
  run(script: ScriptName, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    const redis = this.#redis;
    if (redis === null) return Promise.reject(new ConnectionLost(this.#reason));
    if (this.#waiting.size >= MAX_WAITING) {
      this.#drop(redis, `${MAX_WAITING} calls are waiting for a reply`);
      return Promise.reject(new ConnectionLost(this.#reason));
    }
    const began = performance.now();
    return new Promise((resolve, reject) => {
      let isOver = false;
      const over = (outcome: CallOutcome): void => {
        clearTimeout(timer);
        this.#waiting.remove(place);
        isOver = true;
        this.options.called?.(script, outcome, (performance.now() - began) / 1000);
      };
      const fail = (error: Error): void => {
        over('failed');
        reject(error);
      };
      // A busy event loop runs timers before it reads its sockets. setImmediate defers the check, so that a reply that
      // has already arrived is read first.
      const timer = setTimeout(
        () =>
          setImmediate(() => {
            if (isOver) return;
            over('late');
            reject(new ConnectionLost(`no reply within ${this.options.timeoutMs} ms`));
            this.#drop(redis, `no reply within ${this.options.timeoutMs} ms`);
          }),
        this.options.timeoutMs,
      );
      const place = this.#waiting.add(fail);
      this.#send(redis, script, keys, args).then(
        (answer) => {
          if (isOver) return;
          over('answered');
          resolve(answer);
        },
        (error: Error) => {
          if (isOver) return;
          fail(new ConnectionLost(error.message));
          this.#drop(redis, error.message); // errors such as read-only, out of memory or loading affect all calls
        },
      );
    });
  }

  /** Closes the connection permanently. */
  async close(): Promise<void> {
    if (this.#closed) return this.#close;
    this.#closed = true;
    this.#up = false;
    if (this.#redis !== null) this.#drop(this.#redis, 'closed');
    this.#closing();
  }

  async #send(
    redis: Redis,
    script: ScriptName,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    try {
      return await redis.evalsha(HASHES[script], keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return redis.eval(SCRIPTS[script], keys.length, ...keys, ...args); // this makes Redis cache the script
    }
  }

  async #keepConnected(up: () => void): Promise<void> {
    for (let pause = FIRST_PAUSE_MS; !this.#closed; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      const dropped = new Promise<void>((resolve) => {
        this.#dropped = resolve;
      });
      try {
        const redis = await this.#connect();
        await this.options.attach();
        if (this.#redis === redis) {
          this.#up = true;
          pause = FIRST_PAUSE_MS;
          up();
          await dropped;
        }
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        if (this.#redis === null) this.#reason = reason;
        else this.#drop(this.#redis, reason);
      }
      if (!this.#closed) await Promise.race([sleep(pause, undefined, { ref: false }), this.#close]);
    }
  }

  async #connect(): Promise<Redis> {
    const redis = new Redis(this.options.url, {
      lazyConnect: true,
      retryStrategy: () => null,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      connectTimeout: CONNECT_MS,
      connectionName: 'monolith',
      disableClientInfo: true,
      protocol: 2,
    });
    let reason: string = CLOSED;
    redis.on('error', (error: Error) => {
      reason = error.message;
    });
    redis.on('close', () => this.#drop(redis, reason));
    const late = new AbortController();
    try {
      await Promise.race([
        redis.connect(),
        sleep(CONNECT_MS, undefined, { signal: late.signal }).then(() => {
          throw new ConnectionLost(`not ready within ${CONNECT_MS} ms`);
        }),
      ]);
    } catch (error) {
      redis.disconnect();
      const said = reason === CLOSED && error instanceof Error ? error.message : reason;
      throw new ConnectionLost(
        CUT.test(said)
          ? `closed before it was ready (${said}): Redis in protected mode rejects remote clients; set a password or "protected-mode no"`
          : said,
      );
    } finally {
      late.abort();
    }
    if (this.#closed) redis.disconnect();
    this.#redis = redis;
    return redis;
  }

  #drop(redis: Redis, reason: string): void {
    if (this.#redis !== redis) return;
    this.#redis = null;
    this.#reason = reason;
    const wasUp = this.#up;
    this.#up = false;
    redis.disconnect();
    const waiting = [...this.#waiting]; // copied, because each call removes itself
    for (const fail of waiting) fail(new ConnectionLost(reason));
    if (wasUp && !this.#closed) this.options.lost(reason);
    this.#dropped();
  }
}
