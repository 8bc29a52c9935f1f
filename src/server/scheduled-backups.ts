// Backs up the database at regular intervals and deletes the oldest backups. The directory's files show when the last
// backup was taken, so a restart neither repeats nor skips a backup. Primary thread only.

import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../shared/make-folder.js';
import { backUp } from '../storage/lmdb/database-copy.js';
import type { Telemetry } from '../telemetry/types.js';

export interface BackupSchedule {
  readonly folder: string;
  readonly hours: number;
  /** Number of backups to keep. */
  readonly keep: number;
}

const HOUR_MS = 3_600_000;
/** Delay before a failed backup is retried. */
const AGAIN_MS = HOUR_MS;
/** Only files that backUp() has named are counted and deleted. */
const BACKUP = /^monolith-\d{8}T\d{6}Z(?:-\d+)?\.mdb$/;

export class ScheduledBackups {
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  /** Throws an Error if the directory cannot be created. */
  constructor(
    private readonly dataDir: string,
    private readonly schedule: BackupSchedule,
    private readonly telemetry: Pick<Telemetry, 'log' | 'backedUp'>,
  ) {
    makeFolder(schedule.folder, 0o700);
    const last = this.#files().at(-1);
    if (last !== undefined) telemetry.backedUp(last.at / 1000);
    this.#in(last === undefined ? 0 : last.at + schedule.hours * HOUR_MS - Date.now());
  }

  /** Stops a running backup, which leaves no file. */
  async close(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Waits at most an hour at a time, because the clock may be changed. */
  #in(ms: number): void {
    if (this.#stop.signal.aborted) return;
    const wait = Math.min(Math.max(0, ms), HOUR_MS);
    this.#timer = setTimeout(() => {
      if (ms > wait) this.#in(ms - wait);
      else this.#running = this.#run();
    }, wait).unref();
  }

  async #run(): Promise<void> {
    const { folder, hours, keep } = this.schedule;
    const { log } = this.telemetry;
    try {
      const { path, bytes } = await backUp(this.dataDir, `${folder}/`, this.#stop.signal);
      this.telemetry.backedUp(Date.now() / 1000);
      const old = this.#files().slice(0, -keep);
      for (const { name } of old) rmSync(join(folder, name), { force: true });
      log.info({ file: path, bytes, deleted: old.length }, 'database backed up');
      this.#in(hours * HOUR_MS);
    } catch (err) {
      if (!this.#stop.signal.aborted) log.error({ err, folder }, 'backup failed; will retry in an hour');
      this.#in(Math.min(AGAIN_MS, hours * HOUR_MS));
    }
  }

  /** The backups in the directory, oldest first. */
  #files(): { name: string; at: number }[] {
    return readdirSync(this.schedule.folder)
      .filter((name) => BACKUP.test(name))
      .sort()
      .map((name) => ({ name, at: statSync(join(this.schedule.folder, name)).mtimeMs }));
  }
}
