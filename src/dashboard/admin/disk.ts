// Models on disk, whether they fit in memory, and downloads from the hub.

import { statfsSync } from 'node:fs';
import { z } from 'zod';
import { fitOf } from '../../engine/file-facts.js';
import { availableMemory, totalMemory } from '../../engine/machine-memory.js';
import type { DiskModel, DiskState } from '../../shared/wire/models.js';
import type { Route } from '../../http/exchange.js';
import type { FileFacts } from '../../engine/file-facts.js';
import type { Hub } from '../../hub/hub.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { NoteOperation, OperatorGuard } from './operator-guard.js';
import type { Pulls } from './pulls.js';

const pullBody = z.object({ model: z.string().min(1).max(512) });

/** Maximum number of models listed. A cache can contain thousands of files. */
const MAX_SHOWN = 200;

export interface DiskDeps {
  hub: Hub;
  hubEndpoint: string;
  pulls: Pulls;
  fileFacts: FileFacts;
  pool: Pick<ModelPool, 'list'>;
  note: NoteOperation;
}

export function diskRoutes(
  guard: OperatorGuard,
  { hub, hubEndpoint, pulls, fileFacts, pool, note }: DiskDeps,
): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/disk',
      handler: async ({ exchange }) => {
        const served = new Map(pool.list().map(({ model }) => [model.file, model.id]));
        const memory = { total: totalMemory(), available: availableMemory() };
        const models: DiskModel[] = [];
        for (const { ref, path, bytes, isOld } of hub.onDisk().slice(0, MAX_SHOWN)) {
          const fact = await fileFacts.of(path);
          models.push({
            model: ref,
            path,
            file_bytes: bytes,
            is_old: isOld,
            architecture: fact.architecture,
            parameters: fact.parameters,
            memory_bytes: fact.memory,
            fits: fitOf(fact, memory),
            problem: fact.problem,
            served_as: served.get(path) ?? null,
          });
        }
        const state: DiskState = {
          object: 'disk',
          endpoint: hubEndpoint,
          folder: hub.cache.root,
          free_bytes: freeBytes(hub.cache.root),
          memory_bytes: memory.total,
          available_memory_bytes: memory.available,
          models,
          pulls: await pulls.list(),
        };
        exchange.json(200, state);
      },
    }),

    guard({
      method: 'POST',
      path: '/pulls',
      body: pullBody,
      handler: async ({ exchange, actor, body }) => {
        const pull = pulls.start(body.model);
        await note(actor, 'model.pulled', pull.model);
        exchange.json(200, pull);
      },
    }),

    guard({
      method: 'DELETE',
      path: '/pulls/:pull',
      handler: ({ exchange }) => {
        pulls.stop(exchange.params['pull'] as string);
        exchange.json(200, {});
      },
    }),
  ];
}

/** Null if the directory does not exist yet. */
function freeBytes(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}
