// The checks before a downloaded model is served under a name: the name is free, the weights are on disk, the
// architecture is supported, and the machine has enough memory. Used by operator routes and the command line.

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

/** Maximum number of names that operators may add. Each thread keeps all of them in memory. */
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
  /** Names and aliases in the configuration, and LoRA adapter names. */
  readonly taken: ReadonlySet<string>;
}

/** Checks the declaration and stores it. Rejects with an ApiError 422 whose `param` is `name` or `model`. */
export async function serveFetched(
  { name, model, displayName, idleMinutes }: ServeWish,
  { store, hub, fileFacts, memory, taken }: ServeFrom,
  actor: AuditNote['actor'],
): Promise<ServedModelRow> {
  const problem = nameProblem(name);
  if (problem !== null) throw wrong('name', `name ${problem}.`);
  if (taken.has(name))
    throw wrong('name', `The name "${name}" is already taken by a model, an alias or a LoRA adapter.`);
  if (reserved().has(name)) throw wrong('name', `"${name}" is a model that comes with Monolith. Choose another name.`);
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
      `${showModelRef(ref)} is not on this machine's disk, or is incomplete. Download it first (monolith pull ${showModelRef(ref)}).`,
    );
  const fact = await fileFacts.of(found.path);
  if (fact.problem !== null) throw wrong('model', `${showModelRef(ref)} cannot be served: ${fact.problem}`);
  if (fitOf(fact, memory) === 'no')
    throw wrong(
      'model',
      `${showModelRef(ref)} needs ${showBytes(fact.memory ?? 0)} of memory, but this machine has ${showBytes(memory.total)}.`,
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
      if (there.has(name)) throw wrong('name', `The name "${name}" is already taken.`);
      if (there.size >= MAX_SERVED)
        throw wrong('name', `Operators have added ${MAX_SERVED} models, which is the maximum. Remove one first.`);
    },
    { actor, action: 'model.served', detail: { model: source } },
  );
  return row;
}

const wrong = (field: 'name' | 'model', message: string): Error => apiError('invalid_value', message, field);

let builtIn: ReadonlySet<string> | null = null;

/** The names of the models that a server serves if it is started without --model. */
function reserved(): ReadonlySet<string> {
  return (builtIn ??= new Set(readCatalog(builtInCatalog).map(({ id }) => id)));
}
