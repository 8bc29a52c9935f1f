// What the processes on one database tell each other at once: LISTEN and NOTIFY on a connection of its own. What was told
// while it was down is lost, so whoever goes by it looks again when it is back, and now and then besides. Event-loop
// thread only.

import pg from 'pg';
import { connectionOptions } from './database.js';
import type { DatabaseSettings } from './database.js';

/** What is notified within a transaction goes there too. */
export const CHANNEL = 'monolith';
/** A message has less than 8,000 bytes in PostgreSQL. */
export const MAX_MESSAGE_BYTES = 7_900;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;
/** A connection that nobody closed, and that goes nowhere, is found out by asking. */
const PING_MS = 5_000;
const PING_ANSWER_MS = 3_000;

export interface NotificationOptions {
  onMessage: (text: string) => void;
  /** It was down, and listens again: what was told meanwhile is not known. */
  onRestored?: () => void;
  onLost?: (error: unknown) => void;
}

export class Notifications {
  #client: pg.Client | null = null;
  #retryMs = FIRST_RETRY_MS;
  #timer: NodeJS.Timeout | null = null;
  readonly #ping: NodeJS.Timeout;
  #connecting: Promise<void> | null = null;
  #closed = false;

  private constructor(private readonly settings: DatabaseSettings, private readonly options: NotificationOptions) {
    this.#ping = setInterval(() => void this.#check(), PING_MS).unref();
  }

  /** Resolves when it listens; rejects as the connection fails. */
  static async open(settings: DatabaseSettings, options: NotificationOptions): Promise<Notifications> {
    const opened = new Notifications(settings, options);
    try {
      await opened.#connect();
    } catch (error) {
      await opened.close();
      throw error;
    }
    return opened;
  }

  get listening(): boolean {
    return this.#client !== null;
  }

  /** To every process that listens, this one included. False if it could not be told. */
  async tell(text: string): Promise<boolean> {
    const client = this.#client;
    if (client === null || Buffer.byteLength(text) > MAX_MESSAGE_BYTES) return false;
    try {
      await client.query({ name: 'tell', text: 'SELECT pg_notify($1, $2)', values: [CHANNEL, text] });
      return true;
    } catch (error) {
      this.#lost(client, error);
      return false;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#ping);
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#connecting?.catch(() => undefined);
    const client = this.#client;
    this.#client = null;
    await client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({ ...connectionOptions(this.settings), query_timeout: PING_ANSWER_MS });
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, new Error('the connection was closed')));
    client.on('notification', ({ payload }) => { if (payload !== undefined) this.options.onMessage(payload); });
    try {
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    if (this.#closed) {
      await client.end().catch(() => undefined);
      return;
    }
    this.#client = client;
    this.#retryMs = FIRST_RETRY_MS;
  }

  async #check(): Promise<void> {
    const client = this.#client;
    try {
      await client?.query({ name: 'ping', text: 'SELECT 1' });
    } catch (error) {
      if (client !== null) this.#lost(client, error);
    }
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    void client.end().catch(() => undefined);
    this.options.onLost?.(error);
    this.#retry();
  }

  #retry(): void {
    this.#timer = setTimeout(() => {
      this.#connecting = this.#connect().then(() => this.options.onRestored?.(), () => { if (!this.#closed) this.#retry(); });
    }, this.#retryMs).unref();
    this.#retryMs = Math.min(LONGEST_RETRY_MS, this.#retryMs * 2);
  }
}
