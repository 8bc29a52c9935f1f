// All stored data: the database in the data directory, the shared database if one is configured, the clock guard,
// stored responses, and the stores for accounts, usage and settings.

import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { SoleProcess } from '../../alerts/alert-store.js';
import type { AlertProcesses, AlertStore } from '../../alerts/alert-store.js';
import { AccountChanges } from '../../accounts/changes.js';
import type { OrganizationDataOwner } from '../../accounts/delete-organization.js';
import type { ThreadBus } from '../../shared/bus.js';
import { ErasureHold } from '../../shared/erasure-hold.js';
import type { TierClient } from '../../engine/kv-tier/tier-client.js';
import { Replays } from '../../generation/replay/replays.js';
import type { ReplayStore } from '../../generation/replay/replay-store.js';
import { eraseReplaysWithResponses, sweepReplays } from '../replay-erasure.js';
import { eraseWithResponses, openTierClient } from '../tier-client.js';
import type { EraseGate } from '../../storage/erase-gate.js';
import type { BatchStore } from '../../storage/batch-store.js';
import { LmdbBatchStore } from '../../storage/lmdb/batches/batch-store.js';
import { PostgresBatchStore } from '../../storage/postgres/batches/batch-store.js';
import { LmdbAlertStore } from '../../storage/lmdb/alerts/alert-store.js';
import { LmdbClockRecords } from '../../storage/lmdb/clock-record.js';
import { LmdbCompletionStore } from '../../storage/lmdb/completions/completion-store.js';
import { LmdbConversationStore } from '../../storage/lmdb/conversations/conversation-store.js';
import { openStore } from '../../storage/lmdb/lmdb-store.js';
import { PostgresAlertProcesses } from '../../storage/postgres/alerts/alert-processes.js';
import { PostgresAlertStore } from '../../storage/postgres/alerts/alert-store.js';
import { PostgresCompletionStore } from '../../storage/postgres/completions/completion-store.js';
import { PostgresConversationStore } from '../../storage/postgres/conversations/conversation-store.js';
import { LmdbWebhookStore } from '../../storage/lmdb/webhooks/webhook-store.js';
import { PostgresWebhookStore } from '../../storage/postgres/webhooks/webhook-store.js';
import { LmdbReplayStore } from '../../storage/lmdb/replays/replay-store.js';
import { PostgresReplayStore } from '../../storage/postgres/replays/replay-store.js';
import { PostgresClockRecords } from '../../storage/postgres/clock-record.js';
import { openSharedDatabase } from '../../storage/postgres/shared-database.js';
import type { CompletionStore } from '../../storage/completion-store.js';
import type { ConversationStore } from '../../storage/conversation-store.js';
import type { FileStore } from '../../storage/file-store.js';
import type { UploadStore } from '../../storage/upload-store.js';
import type { ResponseStore } from '../../storage/response-store.js';
import type { WebhookStore } from '../../webhooks/webhook-store.js';
import { openClockGuard } from '../clock-guard.js';
import { reportStorageFailure } from '../lmdb-failure.js';
import { folderResponses } from '../lmdb-responses.js';
import { folderFiles } from '../lmdb-files.js';
import { folderStores, ownStores } from '../lmdb-stores.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import { databaseFiles } from '../postgres-files.js';
import { databaseStores } from '../postgres-stores.js';
import { databaseResponses } from '../response-stores.js';
import type { Responses } from '../response-stores.js';
import type { OwnStores, SharableStores } from '../stores.js';

export interface Storage extends Module, SharableStores, OwnStores, Pick<Responses, 'watch'> {
  /** The bus that connects all threads and processes that share the stores. */
  readonly bus: ThreadBus;
  /** Decides whether expired data may be erased. */
  readonly gate: EraseGate;
  readonly responses: ResponseStore;
  readonly conversations: ConversationStore;
  readonly completions: CompletionStore;
  readonly webhooks: WebhookStore;
  readonly files: FileStore;
  readonly uploads: UploadStore;
  /**
   * Returns the time in seconds since 1970, from PostgreSQL's clock if PostgreSQL is used, otherwise from this
   * machine's clock.
   */
  readonly wallClock: () => number;
  readonly batches: BatchStore;
  /** Identifies this process to operators. Unchanged after a restart. */
  readonly processName: string;
  readonly alerts: { readonly incidents: AlertStore; readonly processes: AlertProcesses };
  /** Token IDs of tool calls and reasoning. Null if the settings disable them. */
  readonly replays: Replays | null;
  /** Client of the KV pages on disk. Null if pages are not kept on disk. */
  readonly tierClient: TierClient | null;
  readonly changes: AccountChanges;
  /** Data that is erased when an organization is deleted. */
  readonly organizationData: OrganizationDataOwner;
  /** Calls `listener` once if the data directory's database no longer accepts writes. */
  onFailure(listener: (why: Error) => void): void;
}

/** Only one process may use a data directory, so two processes have different names. */
const processName = (dataDir: string): string => `${hostname()} (${resolve(dataDir)})`;

/** `threads`: the bus that connects all threads of this process. */
export function openStorage({
  config,
  telemetry: { log },
  shared,
  primary,
  threads,
}: AppContext & { threads: ThreadBus }): Promise<Storage> {
  return openModule(async (undo) => {
    const store = await openStore(config.data_dir);
    undo.add(() => store.close());
    undo.add(reportStorageFailure(store, threads, log));
    const { url } = config.database;
    const database = url === null ? null : await openSharedDatabase({ ...config.database, url }, primary, log);
    undo.add(() => database?.close());
    const hold = new ErasureHold(shared.erasure);
    const gate = await openClockGuard({
      records:
        database === null ? new LmdbClockRecords(store) : new PostgresClockRecords(database.database, database.clock),
      hold,
      primary,
      log,
      undo,
    });
    const opening = { gate, bus: threads, settings: config.responses, primary, log, undo };
    const { responses, bus, watch, lease, skew } =
      database === null ? folderResponses(store, shared.held, opening) : await databaseResponses(database, opening);
    const conversations =
      database === null
        ? new LmdbConversationStore(store, config.responses, { gate })
        : new PostgresConversationStore(database.database, config.responses, {
            gate,
            now: () => database.clock.now() / 1000,
          });
    const completions =
      database === null
        ? new LmdbCompletionStore(store, config.responses, { gate })
        : new PostgresCompletionStore(database.database, config.responses, {
            gate,
            now: () => database.clock.now() / 1000,
          });
    const webhooks = database === null ? new LmdbWebhookStore(store) : new PostgresWebhookStore(database.database);
    const { files, uploads } =
      database === null
        ? folderFiles(store, config.files, { gate, undo })
        : databaseFiles(database, config.files, gate);
    const batches =
      database === null
        ? new LmdbBatchStore(store, config.batches, { gate })
        : new PostgresBatchStore(database.database, config.batches, { gate, now: () => database.clock.now() });
    const changes = new AccountChanges(bus);
    undo.add(() => changes.close());
    const tierClient = openTierClient(config, shared, threads.index);
    undo.add(() => tierClient?.close());
    if (tierClient !== null) for (const stored of [responses, completions]) eraseWithResponses(stored, tierClient);
    const { organization_bytes: maxBytes, hours } = config.replay;
    const replayStore: ReplayStore =
      database === null
        ? new LmdbReplayStore(store, maxBytes)
        : new PostgresReplayStore(database.database, maxBytes, log);
    const replays = new Replays(replayStore, {
      keepS: hours * 3_600,
      responseS: config.responses.retention_days * 86_400,
      log,
      ...(database === null ? {} : { now: () => database.clock.now() / 1_000 }),
    });
    undo.add(() => replays.close());
    for (const stored of [responses, completions]) eraseReplaysWithResponses(stored, replays, log);
    if (primary) undo.add(sweepReplays(replayStore, gate, log));
    const stores =
      database === null
        ? folderStores(store, changes, undo)
        : await databaseStores(database, config.database, changes, log, undo);
    const name = processName(config.data_dir);
    const alerts =
      database === null || lease === null
        ? { incidents: new LmdbAlertStore(store), processes: new SoleProcess(name) }
        : {
            incidents: new PostgresAlertStore(database.database, lease.id),
            processes: new PostgresAlertProcesses(database.database, lease, name),
          };
    const { saved, requests, budgets } = stores;
    return {
      ...stores,
      ...ownStores(store, gate),
      processName: name,
      alerts,
      bus,
      gate,
      responses,
      conversations,
      completions,
      webhooks,
      files,
      uploads,
      wallClock: () => (database === null ? Date.now() : database.clock.now()) / 1000,
      batches,
      tierClient,
      replays: hours === 0 ? null : replays,
      watch,
      changes,
      organizationData: {
        eraseOrganization: (id) =>
          Promise.all([
            responses.eraseOrganization(id),
            conversations.eraseOrganization(id),
            completions.eraseOrganization(id),
            webhooks.eraseOrganization(id),
            batches.eraseOrganization(id),
            uploads.eraseOrganization(id).then(() => files.eraseOrganization(id)),
            saved.eraseOrganization(id),
            requests.eraseOrganization(id),
            stores.organizationKeys.erase(id),
            budgets.set(id, null, null),
            tierClient?.eraseOrganization(id),
            replays.eraseOrganization(id),
          ]),
      },
      onFailure: (listener) => store.onFailure(listener),
      health: () => ({ skew: skew(), erasure: hold.held, storage: store.failure?.message ?? null }),
    };
  });
}
