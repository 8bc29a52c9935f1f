// Immediate notifications between processes on one database, using LISTEN and NOTIFY on a separate connection.
// Notifications sent while the connection is down are lost, so receivers must also check the state after a reconnect
// and periodically. Event-loop thread only.

import type pg from 'pg';
import { driver } from './driver.js';
import { connectionOptions } from './database.js';
import type { DatabaseSettings } from './database.js';

/** The notification channel. Transactions that send notifications in SQL use the same name. */
export const CHANNEL = 'monolith';
/** PostgreSQL limits a payload to less than 8,000 bytes. */
export const MAX_MESSAGE_BYTES = 7_900;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;
/** Interval between queries that detect a dead connection that was never closed. */
const PING_MS = 5_000;
const PING_ANSWER_MS = 3_000;

export interface NotificationOptions {
  onMessage: (text: string) => void;
  /** Called after a reconnect, because notifications sent in the meantime were lost. */
  onRestored?: () => void;
  onLost?: (error: unknown) => void;
  /** Called with any error thrown by onMessage. */
  onUnheard?: (error: unknown) => void;
}

export class Notifications {
  #client: pg.Client | null = null;
  #retryMs = FIRST_RETRY_MS;
  #timer: NodeJS.Timeout | null = null;
  readonly #ping: NodeJS.Timeout;
  #connecting: Promise<void> | null = null;
  #closed = false;
  #asking = false;
  readonly #pending: { text: string; sent: (well: boolean) => void }[] = [];

  private constructor(
    private readonly settings: DatabaseSettings,
    private readonly options: NotificationOptions,
  ) {
    this.#ping = setInterval(() => void this.#check(), PING_MS).unref();
  }

  /** Resolves when the connection is listening; rejects if the connection fails. */
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

  /** Sends to every listening process, including this one. Resolves to false if the message could not be sent. */
  async send(text: string): Promise<boolean> {
    if (this.#client === null || Buffer.byteLength(text) > MAX_MESSAGE_BYTES) return false;
    return new Promise((sent) => {
      this.#pending.push({ text, sent });
      void this.#sendAll();
    });
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
    const client = new (driver().Client)({ ...connectionOptions(this.settings), query_timeout: PING_ANSWER_MS });
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, new Error('the connection was closed')));
    client.on('notification', ({ payload }) => {
      if (payload !== undefined) this.#onNotification(payload);
    });
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

  /**
   * An exception in this function would leave the message in the connection, which would then deliver it again together
   * with all later ones.
   */
  #onNotification(payload: string): void {
    try {
      this.options.onMessage(payload);
    } catch (error) {
      this.options.onUnheard?.(error);
    }
  }

  /**
   * Runs one statement at a time on the connection. Messages sent while it runs are combined in the next statement.
   * Identical messages in one statement are delivered only once.
   */
  async #sendAll(): Promise<void> {
    while (!this.#asking && this.#pending.length > 0) {
      const now = this.#pending.splice(0);
      const well = await this.#ask({
        name: 'tell',
        text: 'SELECT pg_notify($1, said) FROM unnest($2::text[]) AS each (said)',
        values: [CHANNEL, now.map(({ text }) => text)],
      });
      for (const { sent } of now) sent(well);
    }
  }

  /** Skipped while a notification is being sent, because sending also checks the connection. */
  async #check(): Promise<void> {
    if (this.#asking) return;
    await this.#ask({ name: 'ping', text: 'SELECT 1' });
    void this.#sendAll();
  }

  /** Resolves to false if there is no connection or the connection is lost. */
  async #ask(statement: { name: string; text: string; values?: unknown[] }): Promise<boolean> {
    const client = this.#client;
    if (client === null) return false;
    this.#asking = true;
    try {
      await client.query(statement);
      return true;
    } catch (error) {
      this.#lost(client, error);
      return false;
    } finally {
      this.#asking = false;
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
      this.#connecting = this.#connect().then(
        () => this.options.onRestored?.(),
        () => {
          if (!this.#closed) this.#retry();
        },
      );
    }, this.#retryMs).unref();
    this.#retryMs = Math.min(LONGEST_RETRY_MS, this.#retryMs * 2);
  }
}
