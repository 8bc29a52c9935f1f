// The disk tier of the prefix cache: its worker, the organizations' encryption keys, and the erasure of pages whose
// stored response or chat completion has expired or was deleted by another process. Primary thread only; the other
// threads use Storage.tierClient.

import { randomBytes } from 'node:crypto';
import { rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { KvTier } from '../../engine/kv-tier/kv-tier.js';
import { isPinLabel, keptForPin, labelOf, partsOfLabel } from '../../engine/kv-tier/labels.js';
import { TierState } from '../../engine/kv-tier/tier-state.js';
import type { TierReport } from '../../engine/kv-tier/messages.js';
import type { PageTierTotals } from '../../telemetry/types.js';
import { isStoredCompletionId } from '../../shared/ids.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Engines } from './engines.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';

export interface KvTierModule extends Module {
  /** Null if no pages are kept on disk, and on all threads except the primary one. */
  readonly tier: KvTier | null;
}

export interface KvTierContext extends AppContext {
  storage: Storage;
  engines: Engines;
  secrets: Secrets;
}

const KEY_BYTES = 32;
const MAX_BYTES = 8 * 1024 ** 3;
const LOOK_MS = 30_000;
const REPORT_MS = 2_000;
/** A response is stored after its pages, so pages without a response are erased only after this time. */
const UNSTORED_S = 600;
const LOOK_AT = 500;
/**
 * Interval, in ms, between checks for organizations deleted by another process, and number of organizations per check.
 */
const DELETED_MS = 5_000;
const DELETED_AT = 200;
/** Minimum time between two log lines about the same problem. */
const LOG_MS = 600_000;

/** The directory for KV pages. Backups leave it out. */
export const pagesFolder = (dataDir: string): string => join(dataDir, 'kv-pages');

export function openKvTier(context: KvTierContext): Promise<KvTierModule> {
  const { config, telemetry, shared, primary, storage, engines, secrets } = context;
  const { log } = telemetry;
  return openModule(async (undo) => {
    if (!primary) return { tier: null };
    if (storage.tierClient === null) {
      // Otherwise, pages from an earlier process would not be erased together with their responses.
      await rm(pagesFolder(config.data_dir), { recursive: true, force: true });
      return { tier: null };
    }
    const { organizationKeys, directory, responses, completions, promptPins } = storage;
    const keyOf = async (id: string): Promise<Uint8Array | null> => {
      if ((await directory.organizations.get(id)) === null) return null;
      const { box } = secrets;
      const made = box.seal('page key', id, randomBytes(KEY_BYTES).toString('base64'));
      const sealed = await organizationKeys.keyOf(id, made);
      const opened = box.open('page key', id, sealed);
      if (opened === null) return null; // sealed with a key that is not in secrets.signing_keys
      if (!opened.current) await organizationKeys.replace(id, sealed, box.seal('page key', id, opened.text));
      return Buffer.from(opened.text, 'base64');
    };
    const logged = new Map<string, number>();
    const folder = pagesFolder(config.data_dir);
    const tier = new KvTier({
      folder,
      process: shared.process,
      state: new TierState(shared.kvTier),
      maxBytes: config.kv.disk_bytes > 0 ? config.kv.disk_bytes : await automaticBytes(config.data_dir),
      minTokens: config.kv.min_tokens,
      backlogBytes: config.kv.backlog_bytes,
      encrypts: process.env['MONOLITH_TEST_PLAIN_KV_PAGES'] !== '1',
      keyOf,
      report: (news) => {
        if (news.type === 'ready') {
          log.info({ file: news.model, ms: Math.round(news.ms) }, 'KV pages on disk are available for this model');
          return;
        }
        const { action, message } = news;
        if (performance.now() - (logged.get(action) ?? -Infinity) < LOG_MS) return;
        logged.set(action, performance.now());
        log.warn({ folder, action, why: message }, 'KV pages on disk: a problem, requests are served without them');
      },
    });
    undo.add(() => tier.close(config.engine.drain_ms));
    engines.connect(tier);
    let at = 0;
    const look = async (olderThanS: number): Promise<void> => {
      const labels = await tier.labels(olderThanS);
      if (at >= labels.length) at = 0;
      const some = olderThanS === 0 ? labels : labels.slice(at, at + LOOK_AT);
      at += some.length;
      const gone: string[] = [];
      const pinned = new Set(
        (await promptPins.all()).map(({ id, organizationId }) => labelOf(organizationId, keptForPin(id))),
      );
      for (const label of some) {
        if (isPinLabel(label)) {
          if (!pinned.has(label)) gone.push(label);
          continue;
        }
        const { organizationId, kept } = partsOfLabel(label);
        const stored = isStoredCompletionId(kept) ? completions : responses;
        if ((await stored.head(organizationId, kept)) === null) gone.push(label);
      }
      if (gone.length > 0) await tier.gone(gone);
    };
    const looked = (olderThanS: number): Promise<void> =>
      look(olderThanS).catch((err: unknown) =>
        log.error({ err }, 'cannot look for deleted responses and chat completions'),
      );
    await looked(0); // what was deleted while this process was down
    const timer = setInterval(() => void looked(UNSTORED_S), LOOK_MS);
    timer.unref();
    undo.add(() => clearInterval(timer));
    let next = 0;
    const eraseDeleted = async (): Promise<void> => {
      const ids = await tier.organizations();
      if (next >= ids.length) next = 0;
      const some = ids.slice(next, next + DELETED_AT);
      next += some.length;
      for (const id of some) if ((await directory.organizations.get(id)) === null) await tier.eraseOrganization(id);
    };
    const deleted = setInterval(() => {
      eraseDeleted().catch((err: unknown) => log.error({ err }, 'cannot look for deleted organizations'));
    }, DELETED_MS);
    deleted.unref();
    undo.add(() => clearInterval(deleted));
    const nameOf = (file: string): string =>
      engines.pool.engines().find((engine) => engine.file === file)?.names[0] ?? '';
    const watch = setInterval(() => {
      void tier.report().then((report) => {
        if (report !== null) telemetry.pageTier(totalsOf(report, nameOf));
      });
    }, REPORT_MS);
    watch.unref();
    undo.add(() => clearInterval(watch));
    return { tier };
  });
}

function totalsOf(
  { counts, bytes, hits, misses, importedTokens, savedMs, skippedPages, uses }: TierReport,
  nameOf: (file: string) => string,
): PageTierTotals {
  const models = new Map<string, { prompt: number; memory: number; disk: number }>();
  for (const { file, promptTokens, memoryTokens, diskTokens } of uses) {
    const name = nameOf(file);
    if (name === '') continue; // the model is no longer served
    const one = models.get(name) ?? { prompt: 0, memory: 0, disk: 0 };
    one.prompt += promptTokens;
    one.memory += memoryTokens;
    one.disk += diskTokens;
    models.set(name, one);
  }
  const { written, writtenBytes, read, readBytes, evicted, erased, skipped, dropped } = counts;
  return {
    pages: { written, read, evicted, erased, skipped: skipped + skippedPages, ...dropped },
    readBytes,
    writtenBytes,
    hits,
    misses,
    tokens: importedTokens,
    savedSeconds: savedMs / 1000,
    usedBytes: bytes,
    models,
  };
}

async function automaticBytes(dataDir: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(dataDir);
    return Math.min(MAX_BYTES, Math.floor((bavail * bsize) / 10));
  } catch {
    return MAX_BYTES;
  }
}
