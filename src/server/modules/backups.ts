// Scheduled backups of the database.

import { StartError } from '../../shared/errors.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import { ScheduledBackups } from '../scheduled-backups.js';

/** Throws StartError if the backup directory cannot be used. */
export function openBackups({ config, telemetry, primary }: AppContext): Promise<Module> {
  return openModule((undo) => {
    const { folder, hours, keep } = config.backups;
    if (!primary || folder === null) return {};
    if (config.database.url !== null)
      throw new StartError(
        'backups.folder needs a database in the data directory; back up PostgreSQL (database.url) with pg_dump.',
      );
    try {
      const backups = new ScheduledBackups(config.data_dir, { folder, hours, keep }, telemetry);
      undo.add(() => backups.close());
    } catch (error) {
      throw new StartError(`backups.folder: ${error instanceof Error ? error.message : String(error)}`);
    }
    return {};
  });
}
