// The database that several processes share: a bounded pool of connections, statements and transactions on it. Every
// failure that passes becomes ApiError 503 `maintenance`. Texts of statements are constants with numbered parameters:
// each is prepared once per connection, and nothing of a request is ever part of one. One per thread that answers
// requests, used on its event loop only.

import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import pg from 'pg';
import type { PoolClient, PoolConfig } from 'pg';
import { shownAddress } from './address.js';
import { isBroken, isConflict, isUnavailable, reasonOf, unavailable } from './failures.js';

export interface DatabaseSettings {
  /** postgres://user:password@host:port/name; what libpq's addresses may say besides is understood as far as `pg` does. */
  url: string;
  /** Connections at most. */
  connections: number;
  /** Longest time for a connection, and for one statement. */
  timeout_ms: number;
}

export interface DatabaseOptions {
  /** A failure that a client was told of as 503, once a minute at most: without a password or a text of a request. */
  onFailure?: (reason: { reason: string; database: string }) => void;
}

export type Value =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | number | boolean | null | Uint8Array)[];

/** Where statements are put: the database, or one transaction on it. Numbers of eight bytes come as numbers. */
export interface Queryable {
  /** The rows. */
  query<Row>(text: string, values?: readonly Value[]): Promise<Row[]>;
  /** How many rows it changed. */
  execute(text: string, values?: readonly Value[]): Promise<number>;
}

export interface Database extends Queryable {
  /** As it may be shown. */
  readonly address: string;
  /** All of `work` or nothing, at read committed. It may run again if others were in its way, so it must have no other effects. */
  transaction<T>(work: (within: Queryable) => Promise<T>): Promise<T>;
  /** Connections in use, idle, and requests that wait for one. */
  load(): { connections: number; idle: number; waiting: number };
  close(): Promise<void>;
}

/** Requests that wait for a connection; more are refused at once. */
const MAX_WAITING = 4_096;
const MAX_ATTEMPTS = 10;
const RETRY_MS = 5;
const IDLE_MS = 30_000;
const FAILURE_LOG_MS = 60_000;
const INT8 = 20;

/** Numbers of eight bytes as numbers: sums and times, far below 2^53. */
const types: PoolConfig['types'] = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === INT8 && format !== 'binary'
      ? Number
      : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

/** What every connection is made with, that of notifications included. */
export const connectionOptions = ({ url, timeout_ms: timeoutMs }: DatabaseSettings): PoolConfig => ({
  connectionString: url,
  types,
  application_name: 'monolith',
  keepAlive: true,
  connectionTimeoutMillis: timeoutMs,
  // The database ends a statement that takes too long; if it cannot be reached at all, this side does.
  statement_timeout: timeoutMs,
  query_timeout: timeoutMs + 1_000,
  idle_in_transaction_session_timeout: timeoutMs + 1_000,
});

/** Connects when it is asked something. */
export function openPool(settings: DatabaseSettings, options: DatabaseOptions = {}): Database {
  return new PooledDatabase(settings, options);
}

const names = new Map<string, string>();

/** Of a constant text: what a prepared statement goes by. */
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
  #toldAt = -Infinity;
  #closed: Promise<void> | null = null;

  constructor(settings: DatabaseSettings, { onFailure = () => undefined }: DatabaseOptions) {
    this.address = shownAddress(settings.url);
    this.#onFailure = onFailure;
    this.#pool = new pg.Pool({
      ...connectionOptions(settings),
      max: settings.connections,
      idleTimeoutMillis: IDLE_MS,
      allowExitOnIdle: true,
    });
    // A connection that was cut, idle or not: what is asked on it fails by itself, and the next request makes a new one.
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

  /** Again as long as others are in the way; what fails for good is told. */
  async #with<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(work);
      } catch (error) {
        if (!(error instanceof Failure)) throw error; // of the work itself
        if (!isConflict(error.cause) || attempt >= MAX_ATTEMPTS) throw this.#told(error.cause);
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
    if (this.#pool.waitingCount >= MAX_WAITING) throw new Failure(new Error('too many requests wait for a connection'));
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw new Failure(error);
    }
  }

  #told(error: unknown): unknown {
    if (!isUnavailable(error)) return error;
    if (performance.now() - this.#toldAt >= FAILURE_LOG_MS && this.#closed === null) {
      this.#toldAt = performance.now();
      this.#onFailure({ reason: reasonOf(error), database: this.address });
    }
    return unavailable(error);
  }
}

/** What the client of the database threw, apart from what the work of a transaction throws. */
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

/** PostgreSQL's texts have no U+0000; whoever sends one finds nothing by it, and reads U+FFFD where it was kept. JSON has it escaped. */
function kept(value: Value): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;
  return Array.isArray(value) && value.some((one) => typeof one === 'string' && one.includes('\0'))
    ? value.map(kept)
    : value;
}
