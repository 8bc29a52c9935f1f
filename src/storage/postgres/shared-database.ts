// The database of several servers as one answering thread has it: its pool, and what the others tell. One per thread,
// used on its event loop only.

import type { Log } from '../../telemetry/types.js';
import { openPool } from './database.js';
import { DatabaseClock } from './database-clock.js';
import type { Database, DatabaseSettings } from './database.js';
import { migrate } from './migrations.js';
import { Notifications } from './notifications.js';

export interface SharedDatabase {
  readonly database: Database;
  readonly clock: DatabaseClock;
  /** `heard`: each message of a process, this one included. `missed`: there may have been some that nobody heard. Returns how to stop. */
  listen(heard: (message: string) => void, missed?: () => void): () => void;
  /** As Notifications.tell(). */
  tell(message: string): Promise<boolean>;
  close(): Promise<void>;
}

/** `primary`: the thread that brings the tables up to date. Rejects with StorageError that names what is wrong, or with ApiError 503. */
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
    onUnheard: (err) => log.error({ err }, 'a message of another server could not be taken'),
    onLost: (err) => log.warn({ err }, 'nothing is heard of the other servers at the moment'),
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
    tell: (message) => notifications.tell(message),
    close,
  };
}
