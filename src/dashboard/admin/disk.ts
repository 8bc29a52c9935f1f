// Models on disk, whether they fit in memory, and downloads from the hub.

import { statfsSync } from 'node:fs';
import { z } from 'zod';
import { fitOf } from '../../engine/file-facts.js';
import { availableMemory, totalMemory } from '../../engine/machine-memory.js';
import type { DiskModel, DiskRemoval, DiskState, HubModel } from '../../shared/wire/models.js';
import type { ListPage } from '../../shared/wire/list.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { FileFacts } from '../../engine/file-facts.js';
import type { Hub } from '../../hub/hub.js';
import { HubError } from '../../hub/hub-error.js';
import { parseModelRef, showModelRef } from '../../hub/model-ref.js';
import type { ModelRef } from '../../hub/model-ref.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { NoteOperation, OperatorGuard } from './operator-guard.js';
import type { Pulls } from './pulls.js';

const pullBody = z.object({ model: z.string().min(1).max(512) });

/** Maximum number of models listed. A cache can contain thousands of files. */
const MAX_SHOWN = 200;
/** Maximum length of a hub search query, in characters. */
const MAX_QUERY = 200;

export interface DiskDeps {
  hub: Hub;
  hubEndpoint: string;
  pulls: Pulls;
  fileFacts: FileFacts;
  pool: Pick<ModelPool, 'models'>;
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
        const served = new Map(pool.models().map(({ model }) => [model.file, model.id]));
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
            memory_plan: fact.plan,
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
      method: 'DELETE',
      path: '/disk',
      handler: async ({ exchange, actor }) => {
        const ref = refOf(exchange.query.get('model') ?? '');
        const name = showModelRef(ref);
        const path = hub.onDisk().find((one) => one.ref === name)?.path;
        if (path === undefined) throw apiError('resource_not_found', `${name} is not on disk.`, 'model');
        const user = pool.models().find(({ model }) => model.file === path);
        if (user !== undefined)
          throw apiError(
            'conflicting_parameters',
            `${name} is served as ${user.model.id}. Stop serving it first.`,
            'model',
          );
        if ((await pulls.list()).some(({ state, model }) => state === 'running' && refOf(model).repo === ref.repo))
          throw apiError(
            'conflicting_parameters',
            `${ref.repo} is being downloaded. Stop the download first.`,
            'model',
          );
        const removal: DiskRemoval = { model: name, freed_bytes: removed(ref) };
        await note(actor, 'model.deleted_from_disk', name);
        exchange.json(200, removal);
      },
    }),

    guard({
      method: 'GET',
      path: '/hub/models',
      handler: async ({ exchange }) => {
        const text = (exchange.query.get('q') ?? '').trim();
        if (text === '' || text.length > MAX_QUERY)
          throw apiError('invalid_query_parameter', `q must have between 1 and ${MAX_QUERY} characters.`, 'q');
        const found = await hub.search(text).catch((error: unknown) => {
          if (error instanceof HubError) throw apiError('hub_unavailable', sentence(error.message));
          throw error;
        });
        const data = found.map(
          ({ repo, downloads, likes, updatedAt, gated }): HubModel => ({
            model: repo,
            downloads,
            likes,
            updated_at: updatedAt,
            gated,
          }),
        );
        exchange.json(200, { object: 'list', data, has_more: false, next: null } satisfies ListPage<HubModel>);
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

  function removed(ref: ModelRef): number {
    try {
      return hub.remove(ref);
    } catch (error) {
      if (error instanceof HubError) throw apiError('invalid_value', sentence(error.message), 'model');
      throw error;
    }
  }
}

function refOf(model: string): ModelRef {
  try {
    return parseModelRef(model);
  } catch (error) {
    throw apiError('invalid_value', (error as Error).message, 'model');
  }
}

const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

/** Null if the directory does not exist yet. */
function freeBytes(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}
