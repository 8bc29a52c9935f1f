// Invariants of the stored-response tables. They hold at all times, whether the server is running or has been killed.
// Everything is read from a single snapshot of the database.
import { ResponseTables, listKey } from '../../src/storage/lmdb/responses/response-tables.js';
import type { Key, Store } from '../../src/storage/store.js';

const first = (key: Key): string => (typeof key === 'string' ? key : (key as readonly string[])[0]) as string;

/** Returns a sentence for each violated invariant. */
export function wrongInTables(store: Store): string[] {
  const wrong: string[] = [];
  store.refresh();
  const tables = new ResponseTables(store);
  const heads = new Map([...tables.heads.range()].map(({ key, value }) => [key as string, value]));
  const noted = new Set([...tables.times.keys()].map((key) => JSON.stringify(key)));
  const isNoted = (...key: unknown[]): boolean => noted.has(JSON.stringify(key));
  const listed = new Set([...tables.byOrganization.keys()].map((key) => JSON.stringify(key)));
  const children = new Map<string, number>();
  for (const { previousId } of heads.values())
    if (previousId !== null) children.set(previousId, (children.get(previousId) ?? 0) + 1);

  for (const [id, head] of heads) {
    const claim = (holds: boolean, what: string): void => {
      if (!holds) wrong.push(`${id} (${head.dead ? 'dead' : head.status}): ${what}`);
    };
    const ended = head.background && head.status !== 'queued' && head.status !== 'in_progress';
    claim(tables.outputs.get(id) !== undefined, 'has no output');
    const inputs = [...tables.inputs.range(ResponseTables.below(id))];
    let next = 0;
    for (const { key, value } of inputs) {
      if ((key as [string, number])[1] !== next) claim(false, 'its input has a gap');
      next += value.length;
    }
    claim(inputs.length > 0, 'has no input');
    claim(
      (tables.resource(id) === undefined) === head.dead,
      'a live response must have a resource, and a dead one none',
    );
    claim(
      listed.has(JSON.stringify(listKey(id, head))) === !head.dead,
      'a live response must be listed, and a dead one not',
    );
    claim(
      isNoted('created', head.createdAt, id) === !head.dead,
      'a live response must have a retention entry, and a dead one none',
    );
    claim(
      isNoted('open', 0, id) === (head.background && !ended && !head.dead),
      'only a running background response may have an open entry',
    );
    if (ended && !head.dead) claim(head.logUntil !== null, 'has no end time for its log');
    claim(
      head.children === (children.get(id) ?? 0),
      `has ${children.get(id) ?? 0} continuations, but counts ${head.children}`,
    );
    const parent = head.previousId === null ? undefined : heads.get(head.previousId);
    if (head.previousId !== null) claim(parent !== undefined, 'its previous response is missing');
    if (parent !== undefined)
      claim(head.depth === parent.depth + 1, 'its depth is not the depth of the previous response plus one');
    if (head.dead && head.children === 0)
      claim(isNoted('erase', 0, id), 'is dead without continuations, but has no erase entry');
    for (const place of ['input', 'output'] as const) {
      for (const row of tables.rows(id, place))
        if (row.images > 0 && tables.images.get([id, place, 0, 0]) === undefined)
          claim(false, 'one of its images is missing');
    }
  }
  const ownerless = (
    keys: Iterable<Key>,
    table: string,
    idOf: (key: Key) => string,
    excused: (id: string) => boolean = () => false,
  ): void => {
    for (const key of keys)
      if (!heads.has(idOf(key)) && !excused(idOf(key)))
        wrong.push(`${table} has ${JSON.stringify(key)}, which belongs to no response`);
  };
  const at =
    (index: number) =>
    (key: Key): string =>
      (key as readonly unknown[])[index] as string;
  ownerless(tables.resources.keys(), 'response-resources', first);
  ownerless(tables.inputs.keys(), 'response-inputs', first);
  ownerless(tables.outputs.keys(), 'response-outputs', first);
  ownerless(tables.items.keys(), 'response-items', at(3), (id) => isNoted('staged', 0, id));
  ownerless(tables.images.keys(), 'response-images', first, (id) => isNoted('staged', 0, id));
  ownerless(tables.events.keys(), 'response-events', first, (id) => isNoted('log', 0, id));
  ownerless(tables.byOrganization.keys(), 'responses-by-organization', at(2));
  for (const key of tables.times.keys()) {
    const [kind, when, id] = key as [string, number, string];
    const log = kind === 'log' && when === 0; // the log of an erased response
    if (kind !== 'staged' && !log && !heads.has(id))
      wrong.push(`response-times has ${JSON.stringify(key)}, which belongs to no response`);
  }
  return wrong;
}

/**
 * Interrupted saves and unfinished erasures. At startup, the server rolls back the saves and completes the erasures.
 */
export function leftToDo(store: Store): string[] {
  store.refresh();
  const { times, heads } = new ResponseTables(store);
  const left = [
    ...times.keys({ from: ['staged'], to: ['staged', 1] }),
    ...times.keys({ from: ['erase'], to: ['erase', 1] }),
  ].filter((key) => (heads.get((key as [string, number, string])[2])?.children ?? 0) === 0);
  return [...left, ...times.keys({ from: ['log'], to: ['log', 1] })].map((key) => JSON.stringify(key));
}
