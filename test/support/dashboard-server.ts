// A server in this process for dashboard tests, with real accounts in a real database and one small model.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configWith } from '../../src/config/load.js';
import { startServer } from '../../src/server/server.js';
import type { Server } from '../../src/server/server.js';
import type { Store } from '../../src/storage/store.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { embeddedModel } from '../e2e/monolith.js';
import { dashboardClient } from './dashboard-client.js';
import type { DashboardClient } from './dashboard-client.js';
import type { SweptDirectory } from '../../src/accounts/directory.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';

export interface DashboardServer {
  server: Server;
  url: string;
  dataDir: string;
  logs: string[];
  /**
   * Accesses the server's own database. If a process opens the same database twice, the second instance can block
   * forever on a write by the first.
   */
  inside<T>(work: (store: Store) => Promise<T>): Promise<T>;
  /** Returns a new browser client. */
  client(): DashboardClient;
  /** Restarts on the same data directory, as if in another process. `settings` replaces the original settings. */
  restart(settings?: object): Promise<void>;
  close(): Promise<void>;
}

export async function startDashboard(settings: object = {}): Promise<DashboardServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'monolith-dashboard-'));
  const logs: string[] = [];
  const start = (more: object): Promise<Server> =>
    startServer(configWith({ port: 0, data_dir: dataDir, model: { 'hal-1.0': embeddedModel }, ...more }), {
      telemetry: createTelemetry({ format: 'json', level: 'warn', write: (line) => logs.push(line) }),
    });
  const running: DashboardServer = {
    server: await start(settings),
    dataDir,
    logs,
    get url() {
      return running.server.url;
    },
    inside: (work) => work(folderDirectory(running.server).store),
    client: () => dashboardClient(running.server.url),
    restart: async (more = settings) => {
      await running.server.close();
      running.server = await start(more);
    },
    close: async () => {
      await running.server.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  return running;
}

/** Returns the LMDB directory of a server in this process, for tests that inspect its tables. */
export function folderDirectory({ directory }: { directory: SweptDirectory }): LmdbDirectory {
  if (!(directory instanceof LmdbDirectory)) throw new TypeError('this server shares its directory with others');
  return directory;
}
