// Notifies this thread when any process changes keys or organizations. A notification names the organization and
// arrives immediately. The version in `accounts_state`, which is read several times a second, reveals whether a
// notification was lost. The key cache uses this class to determine how long its entries may be trusted. Each read also
// samples the database's clock. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import type { Queryable } from '../database.js';
import { DATABASE_NOW } from '../database-clock.js';
import type { DatabaseClock } from '../database-clock.js';
import type { KeyCachePolicy } from '../../../accounts/key-cache.js';

/** Interval between reads of the version. */
const LOOK_MS = 300;
/**
 * If the database takes longer than this to respond, changes made in the meantime are unknown. The database then counts
 * as unreachable, although the read continues.
 */
const ANSWER_MS = 1_000;

/** A notification's content: the organization whose keys and limits must be read again, and the new version. */
export const changeMessage = (version: number, organizationId: string): string =>
  `accounts ${version} ${organizationId}`;

export interface ChangeFeedOptions {
  /** Null represents a change whose notification was lost. */
  onChange: (organizationId: string | null) => void;
  /** Called when the database becomes unreachable or, with null, reachable again. */
  onAway?: (error: unknown) => void;
  /** How long cached keys stay valid while the database is unreachable, in ms. */
  awayMs: number;
  /** Receives a sample each time the version is read. */
  clock?: Pick<DatabaseClock, 'sample'>;
  /** Monotonic milliseconds. */
  now?: () => number;
}

export class ChangeFeed implements KeyCachePolicy {
  #version: number | null = null;
  #confirmedAt = -Infinity;
  #away = false;
  #gone = false;
  #asked: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;
  readonly #now: () => number;

  constructor(
    private readonly sql: Queryable,
    private readonly options: ChangeFeedOptions,
  ) {
    this.#now = options.now ?? (() => performance.now());
  }

  /** Reads the version now, and then several times a second. */
  async open(): Promise<void> {
    await this.look();
    this.#again();
  }

  get confirmedAt(): number {
    return this.#confirmedAt;
  }

  get awayMs(): number {
    return this.options.awayMs;
  }

  get away(): boolean {
    return this.#away;
  }

  get gone(): boolean {
    return this.#gone;
  }

  /** Handles a notification. Notifications of other kinds are ignored. */
  receive(message: string): void {
    const [, version, organizationId] = /^accounts (\d{1,15}) (\S{1,64})$/.exec(message) ?? [];
    if (version === undefined || organizationId === undefined) return;
    const next = Number(version);
    // Reports changes in order of versions. If a version was skipped, any organization may have changed.
    const changed = this.#version === null || next <= this.#version + 1 ? organizationId : null;
    this.#version = Math.max(next, this.#version ?? 0);
    this.options.onChange(changed);
  }

  /**
   * Reads the version. Once this resolves, all changes committed before the call have been reported, unless the
   * database is unreachable. Never rejects.
   */
  async look(): Promise<void> {
    if (
      await within(
        ANSWER_MS,
        (this.#asked ??= this.#ask().finally(() => {
          this.#asked = null;
        })),
      )
    )
      return;
    this.#isAway(new Error(`no response within ${ANSWER_MS} ms`));
  }

  /** Like look(), but without a time limit. */
  async #ask(): Promise<void> {
    const asked = this.#now();
    try {
      const [row] = await this.sql.query<{ version: number; now: number }>(
        `SELECT version, ${DATABASE_NOW} AS now FROM accounts_state`,
      );
      if (row !== undefined) this.options.clock?.sample(asked, row.now);
      const version = row?.version ?? 0;
      // Any data may have changed while the database was unreachable; the server may even have been replaced by a
      // different one.
      if (this.#gone || this.#version === null || version > this.#version) {
        this.#version = version;
        this.options.onChange(null);
      }
      this.#confirmedAt = asked;
      this.#gone = false;
      if (this.#now() - asked > ANSWER_MS) return;
      if (this.#away) this.options.onAway?.(null);
      this.#away = false;
    } catch (error) {
      this.#gone = true;
      this.#isAway(error);
    }
  }

  #isAway(error: unknown): void {
    if (!this.#away && !this.#closed) this.options.onAway?.(error);
    this.#away = true;
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #again(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => void this.look().then(() => this.#again()), LOOK_MS);
    this.#timer.unref();
  }
}

/** Returns whether the read completed in time. */
async function within(ms: number, asked: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms).unref();
  });
  try {
    return await Promise.race([asked.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
