// One HTTP worker thread's access to the database that several servers share: its connection pool, and the
// notifications from other processes. One per thread; used only on its event loop.

import type { Log } from '../../telemetry/types.js';
import { openPool } from './database.js';
import { DatabaseClock } from './database-clock.js';
import type { Database, DatabaseSettings } from './database.js';
import { migrate } from './migrations.js';
import { Notifications } from './notifications.js';

export interface SharedDatabase {
  readonly database: Database;
  readonly clock: DatabaseClock;
  /**
   * `heard`: called with each message from any process, including this one. `missed`: called when messages may have
   * been lost. Returns a function that unsubscribes.
   */
  listen(heard: (message: string) => void, missed?: () => void): () => void;
  /** See Notifications.send(). */
  notify(message: string): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * `primary`: whether this thread upgrades the tables. Rejects with a StorageError that describes the problem, or with
 * ApiError 503.
 */
export async function openSharedDatabase(
  settings: DatabaseSettings,
  primary: boolean,
  log: Log,
): Promise<SharedDatabase> {
  if (primary) await migrate(settings);
  const listeners = new Set<{ heard: (message: string) => void; missed: () => void }>();
  const notifications = await Notifications.open(settings, {
    onMessage: (message) => {
      for (const { heard } of [...listeners]) heard(message);
    },
    onRestored: () => {
      for (const { missed } of [...listeners]) missed();
    },
    onUnheard: (err) => log.error({ err }, 'handling a message from another server failed'),
    onLost: (err) => log.warn({ err }, 'not receiving messages from other servers'),
  });
  const database = openPool(settings, {
    onFailure: (reason) => log.error(reason, 'the shared database failed a request'),
  });
  const close = async (): Promise<void> => {
    await notifications.close();
    await database.close();
  };
  let clock: DatabaseClock;
  try {
    clock = await DatabaseClock.measured(database);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    database,
    clock,
    listen(heard, missed = () => undefined) {
      const listener = { heard, missed };
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    notify: (message) => notifications.send(message),
    close,
  };
}
