// What stands between a fetched model and being served under a name: whether the name is free, the weights are there, their
// architecture is known and the memory is on this machine. Used by operators' routes and by the command line.

import type { AuditNote } from '../../accounts/audit.js';
import { builtInCatalog, nameProblem, readCatalog } from '../../engine/catalog.js';
import { fitOf } from '../../engine/file-facts.js';
import type { FileFacts } from '../../engine/file-facts.js';
import { apiError } from '../../shared/errors.js';
import { parseModelRef, showModelRef } from '../../hub/model-ref.js';
import type { ModelRef } from '../../hub/model-ref.js';
import type { Pulled } from '../../hub/pull.js';
import { showBytes } from '../../config/kinds.js';
import type { ServedModelRow, ServedModelStore } from './served-model-store.js';

/** Names that operators may add; each thread keeps all of them. */
export const MAX_SERVED = 200;

export interface ServeWish {
  name: string;
  /** [hf:]OWNER/REPO[:QUANTIZATION][@REVISION]. */
  model: string;
  displayName?: string | undefined;
  idleMinutes?: number | null | undefined;
}

export interface ServeFrom {
  readonly store: ServedModelStore;
  readonly hub: { cached(ref: ModelRef): Pulled | null };
  readonly fileFacts: FileFacts;
  readonly memory: { total: number; available: number };
  /** Names that the settings serve, and their further names. */
  readonly taken: ReadonlySet<string>;
}

/** Declares it. Rejects with ApiError 422 that names what is wrong, of `name` or of `model`. */
export async function serveFetched(
  { name, model, displayName, idleMinutes }: ServeWish,
  { store, hub, fileFacts, memory, taken }: ServeFrom,
  actor: AuditNote['actor'],
): Promise<ServedModelRow> {
  const problem = nameProblem(name);
  if (problem !== null) throw wrong('name', `name ${problem}.`);
  if (taken.has(name)) throw wrong('name', `There is a model named "${name}" already, or it is a further name of one.`);
  if (reserved().has(name))
    throw wrong('name', `"${name}" is the name of a model that comes with Monolith; choose another one.`);
  let ref: ModelRef;
  try {
    ref = parseModelRef(model);
  } catch (error) {
    throw wrong('model', (error as Error).message);
  }
  const found = hub.cached(ref);
  if (found === null)
    throw wrong(
      'model',
      `${showModelRef(ref)} is not on this machine's disk, or not in whole; fetch it first (monolith pull ${showModelRef(ref)}).`,
    );
  const fact = fileFacts.of(found.path);
  if (fact.problem !== null) throw wrong('model', `${showModelRef(ref)} cannot be served: ${fact.problem}`);
  if (fitOf(fact, memory) === 'no')
    throw wrong(
      'model',
      `${showModelRef(ref)} takes ${showBytes(fact.memory ?? 0)} of memory, and this machine has ${showBytes(memory.total)}.`,
    );
  const source = showModelRef({ ...ref, weights: ref.weights ?? found.quantization });
  const row: ServedModelRow = {
    source,
    path: found.path,
    displayName: displayName ?? name,
    idleMinutes: idleMinutes ?? null,
    addedAt: new Date().toISOString(),
  };
  await store.add(
    name,
    row,
    (there) => {
      if (there.has(name)) throw wrong('name', `There is a model named "${name}" already.`);
      if (there.size >= MAX_SERVED)
        throw wrong('name', `${MAX_SERVED} models are served so, and no more can be; take one away first.`);
    },
    { actor, action: 'model.served', detail: { model: source } },
  );
  return row;
}

const wrong = (field: 'name' | 'model', message: string): Error => apiError('invalid_value', message, field);

let builtIn: ReadonlySet<string> | null = null;

/** A start without --model would serve these. */
function reserved(): ReadonlySet<string> {
  return (builtIn ??= new Set(readCatalog(builtInCatalog).map(({ id }) => id)));
}
