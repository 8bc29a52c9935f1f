// The database that several processes share: a bounded connection pool with statements and transactions. Every
// transient failure becomes ApiError 503 `maintenance`. SQL texts are constants with numbered parameters; each is
// prepared once per connection and never contains request data. There is one per HTTP worker thread, used only on its
// event loop.

import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type pg from 'pg';
import type { PoolClient, PoolConfig } from 'pg';
import { driver } from './driver.js';
import { isBroken, isConflict, isUnavailable, reasonOf, unavailable } from './failures.js';

export interface DatabaseSettings {
  /** postgres://user:password@host:port/name. Other libpq parameters work if `pg` supports them. */
  url: string;
  /** Maximum number of connections. */
  connections: number;
  /** Time limit for connecting and for each statement. */
  timeout_ms: number;
}

export interface DatabaseOptions {
  /**
   * Called at most once per minute when a client receives a 503. The reason contains neither a password nor any request
   * text.
   */
  onFailure?: (reason: { reason: string; database: string }) => void;
}

export type Value =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | number | boolean | null | Uint8Array)[];

/**
 * Runs statements, either directly on the database or within a transaction. 8-byte integers are returned as numbers.
 */
export interface Queryable {
  /** Returns the rows. */
  query<Row>(text: string, values?: readonly Value[]): Promise<Row[]>;
  /** Returns the number of rows changed. */
  execute(text: string, values?: readonly Value[]): Promise<number>;
}

export interface Database extends Queryable {
  /** The database's address, in a form that is safe to display. */
  readonly address: string;
  /**
   * Runs `work` completely or not at all, at isolation level read committed. It may be repeated after a conflict, so it
   * must not have other side effects.
   */
  transaction<T>(work: (within: Queryable) => Promise<T>): Promise<T>;
  /** Number of connections in use and idle, and of requests waiting for a connection. */
  load(): { connections: number; idle: number; waiting: number };
  close(): Promise<void>;
}

/** Maximum number of requests waiting for a connection; further requests are rejected immediately. */
const MAX_WAITING = 4_096;
const MAX_ATTEMPTS = 10;
const RETRY_MS = 5;
const IDLE_MS = 30_000;
const FAILURE_LOG_MS = 60_000;
const INT8 = 20;

/** Returns 8-byte integers as numbers, because sums and times are far below 2^53. */
const types: PoolConfig['types'] = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === INT8 && format !== 'binary'
      ? Number
      : driver().types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

/** Options for every connection, including the one for notifications. */
export const connectionOptions = ({ url, timeout_ms: timeoutMs }: DatabaseSettings): PoolConfig => ({
  connectionString: url,
  types,
  application_name: 'monolith',
  keepAlive: true,
  connectionTimeoutMillis: timeoutMs,
  // The database aborts statements that take too long. If it is unreachable, the client aborts them.
  statement_timeout: timeoutMs,
  query_timeout: timeoutMs + 1_000,
  idle_in_transaction_session_timeout: timeoutMs + 1_000,
});

/** Connects on the first statement. */
export function openPool(settings: DatabaseSettings, options: DatabaseOptions = {}): Database {
  return new PooledDatabase(settings, options);
}

const names = new Map<string, string>();

/** Name of the prepared statement for a constant SQL text. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined)
    names.set(text, (name = `m_${createHash('sha256').update(text).digest('base64url').slice(0, 20)}`));
  return name;
}

class PooledDatabase implements Database {
  readonly address: string;
  readonly #pool: pg.Pool;
  readonly #onFailure: NonNullable<DatabaseOptions['onFailure']>;
  #reportedAt = -Infinity;
  #closed: Promise<void> | null = null;

  constructor(settings: DatabaseSettings, { onFailure = () => undefined }: DatabaseOptions) {
    this.address = shownAddress(settings.url);
    this.#onFailure = onFailure;
    this.#pool = new (driver().Pool)({
      ...connectionOptions(settings),
      max: settings.connections,
      idleTimeoutMillis: IDLE_MS,
      allowExitOnIdle: true,
    });
    // A lost connection, idle or not, needs no action: its statements fail on their own, and the next request opens a
    // new connection.
    this.#pool.on('error', () => undefined).on('connect', (client) => client.on('error', () => undefined));
  }

  async query<Row>(text: string, values: readonly Value[] = []): Promise<Row[]> {
    return this.#with(async (client) => (await ask(client, text, values)).rows as Row[]);
  }

  async execute(text: string, values: readonly Value[] = []): Promise<number> {
    return this.#with(async (client) => (await ask(client, text, values)).rowCount ?? 0);
  }

  transaction<T>(work: (within: Queryable) => Promise<T>): Promise<T> {
    return this.#with(async (client) => {
      await ask(client, 'BEGIN ISOLATION LEVEL READ COMMITTED', []);
      try {
        const result = await work({
          query: async <Row>(text: string, values: readonly Value[] = []) =>
            (await ask(client, text, values)).rows as Row[],
          execute: async (text, values = []) => (await ask(client, text, values)).rowCount ?? 0,
        });
        await ask(client, 'COMMIT', []);
        return result;
      } catch (error) {
        if (!(error instanceof Failure && isBroken(error.cause))) await ask(client, 'ROLLBACK', []);
        throw error;
      }
    });
  }

  load(): ReturnType<Database['load']> {
    const { totalCount, idleCount, waitingCount } = this.#pool;
    return { connections: totalCount, idle: idleCount, waiting: waitingCount };
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#pool.end());
  }

  /** Retries the work while it conflicts with other transactions. Reports the error if it gives up. */
  async #with<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(work);
      } catch (error) {
        if (!(error instanceof Failure)) throw error; // thrown by the work itself
        if (!isConflict(error.cause) || attempt >= MAX_ATTEMPTS) throw this.#reported(error.cause);
        await new Promise((done) => {
          setTimeout(done, Math.random() * RETRY_MS * 2 ** attempt);
        });
      }
    }
  }

  async #once<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#connection();
    let broken = false;
    try {
      return await work(client);
    } catch (error) {
      broken = error instanceof Failure && isBroken(error.cause);
      throw error;
    } finally {
      client.release(broken);
    }
  }

  async #connection(): Promise<PoolClient> {
    if (this.#pool.waitingCount >= MAX_WAITING)
      throw new Failure(new Error('too many requests are waiting for a connection'));
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw new Failure(error);
    }
  }

  #reported(error: unknown): unknown {
    if (!isUnavailable(error)) return error;
    if (performance.now() - this.#reportedAt >= FAILURE_LOG_MS && this.#closed === null) {
      this.#reportedAt = performance.now();
      this.#onFailure({ reason: reasonOf(error), database: this.address });
    }
    return unavailable(error);
  }
}

/** Marks an error from the database client, to distinguish it from errors thrown by a transaction's work. */
class Failure extends Error {
  constructor(cause: unknown) {
    super('', { cause });
  }
}

async function ask(client: PoolClient, text: string, values: readonly Value[]): Promise<pg.QueryResult> {
  try {
    return await client.query({ name: nameOf(text), text, values: values.map(kept) });
  } catch (error) {
    throw new Failure(error);
  }
}

/**
 * PostgreSQL text cannot contain U+0000. It is stored as U+FFFD, so a query that contains it finds nothing. In JSON, it
 * is escaped.
 */
function kept(value: Value): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;
  return Array.isArray(value) && value.some((one) => typeof one === 'string' && one.includes('\0'))
    ? value.map(kept)
    : value;
}

/** `postgres://host:port/name`, without user name, password or parameters. */
export function shownAddress(url: string): string {
  const { protocol, host, pathname, searchParams } = new URL(url);
  const at = host === '' ? (searchParams.get('host') ?? '') : host;
  return `${protocol}//${at}${pathname}`;
}
