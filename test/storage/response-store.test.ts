// Tests stored responses in a real LMDB database.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { hex, isResponseId, newItemId, newResponseId } from '../../src/shared/ids.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import type { ResponseRecord } from '../../src/storage/response-store.js';
import { refusedWrite, UndoneWrite } from '../../src/storage/store.js';
import type { Store, Table, TableName } from '../../src/storage/store.js';
import { DAY, EMPTY, message, openResponses, record, START } from './records.js';
import { responseStoreTests } from './response-store.js';

t.setTimeout(300_000); // the machine may be busy

await responseStoreTests(openResponses, 2_000);

t.test("a response that continues another organization's response gets no access to it", async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const { responses, store } = open;
  const theirs = record();
  await responses.save(theirs);
  const mine = record({ organizationId: 'org_b', previousId: theirs.id });
  await responses.save(mine);
  const head = (id: string) =>
    store.table<{ children: number; depth: number; organizationId: string }>('responses').get(id);
  t.match(
    [head(theirs.id), head(mine.id)],
    [{ children: 0 }, { depth: 1 }],
    'the other response is not held as its parent',
  );
  await responses.save(record({ id: theirs.id, organizationId: 'org_b', output: [] }, 'overwritten'));
  t.match(head(theirs.id), { organizationId: 'org_a' });
  await responses.delete('org_b', mine.id);
  t.match(head(theirs.id), { children: 0 }, 'deleting it does not change the child count of the other response');
  await responses.delete('org_a', theirs.id);
  t.equal(head(theirs.id), undefined);
});

t.test('closing the store stops an erasure after its transaction, and the next process continues it', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const { responses, store } = open;
  const all = Array.from({ length: 200 }, () => record());
  for (const one of all) await responses.save(one);
  const erasing = responses.eraseOrganization('org_a');
  await responses.close();
  await erasing;
  const left = [...store.table('responses-by-organization').keys()].length;
  t.ok(left > 0 && left < 200, `${left} of 200 responses are left`);
  const again = openResponseStore(store, { retention_days: 30 }, { now: () => START });
  t.equal(await again.eraseOrganization('org_a'), left);
  await again.sweep();
  t.equal([...store.table('responses').keys()].length, 0);
  await again.close();
});

t.test('data written ahead of a save is removed if the save comes too late', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const { responses } = open;
  const large = ({ id, input }: ResponseRecord) =>
    record({
      id,
      input,
      background: true,
      output: Array.from({ length: 300 }, () => message('assistant', [{ type: 'output_text', text: 'x' }])),
    });
  const deleted = record({ background: true, status: 'queued', output: [] });
  await responses.save(deleted);
  await responses.delete('org_a', deleted.id);
  await responses.save(large(deleted));
  t.same([await open.rows(), await open.noted()], [EMPTY, 0]);

  // The response is deleted while its data is being written ahead; another response continues it, so its own items are
  // kept.
  const held = record({
    background: true,
    status: 'queued',
    output: [],
    input: [message('user', [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }], [new Uint8Array([1])])],
  });
  const queued = responses.save(held);
  const late = responses.save(large(held));
  await queued;
  const chain = (await responses.chain('org_a', held.id))!;
  await responses.delete('org_a', held.id);
  await late;
  t.match(
    [await open.rows(), (await open.noted()) > 0],
    [{ responses: 1, 'response-inputs': 1, 'response-images': 1, 'response-items': 1 }, true],
  );
  chain.release();
  await responses.sweep();
  t.same([await open.rows(), await open.noted()], [EMPTY, 0]);
});

/** Simulates a disk with few free pages: a transaction that writes more rows than fit is rolled back. */
function tight(store: Store, rows: number, refused: () => void): Store {
  let written = 0;
  const watched = <V>(table: Table<V>): Table<V> => ({
    get: (key) => table.get(key),
    range: (options) => table.range(options),
    keys: (options) => table.keys(options),
    insert: (key, value) => table.insert(key, value),
    put: (key, value) => {
      written++;
      return table.put(key, value);
    },
    remove: (key) => {
      written++;
      return table.remove(key);
    },
  });
  return {
    table: <V>(name: TableName) => watched(store.table<V>(name)),
    refresh: () => store.refresh(),
    close: () => store.close(),
    transaction: (work) =>
      store.transaction(() => {
        written = 0;
        const result = work();
        if (written <= rows) return result;
        refused();
        throw refusedWrite(new UndoneWrite('No space left on device'));
      }),
  };
}

t.test('expired responses are erased in small steps on a nearly full disk', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const running = record({ background: true, status: 'queued', output: [] });
  await open.responses.save(running);
  for (let n = 0; n < 40; n++)
    await open.responses.appendEvents(running.id, [{ sequence: n, type: 'response.created', data: '{}' }]);
  let previousId: string | null = null;
  for (let n = 0; n < 30; n++) {
    const one = record({ previousId });
    await open.responses.save(one);
    previousId = n % 3 === 2 ? null : one.id;
  }
  let refused = 0;
  const responses = openResponseStore(
    tight(open.store, 12, () => {
      refused++;
    }),
    { retention_days: 30 },
    { now: () => START + 31 * DAY },
  );
  t.teardown(() => responses.close());
  t.equal(await responses.sweep(), 0, 'the sweep at startup has already erased them');
  t.ok(refused > 0, 'erasing everything in one transaction was refused');
  t.same([await open.rows(), await open.noted()], [EMPTY, 0]);
});

/** Records the removed keys in order, by table. To simulate a crash, `admit` may refuse a transaction. */
function noting(
  store: Store,
  removed: { table: TableName; key: string }[],
  admit: () => void = () => undefined,
): Store {
  const watched = <V>(name: TableName, table: Table<V>): Table<V> => ({
    get: (key) => table.get(key),
    range: (options) => table.range(options),
    keys: (options) => table.keys(options),
    insert: (key, value) => table.insert(key, value),
    put: (key, value) => table.put(key, value),
    remove: (key) => {
      removed.push({
        table: name,
        key: [key]
          .flat()
          .map((part) => (typeof part === 'number' ? String(part).padStart(12, '0') : part))
          .join(' '),
      });
      return table.remove(key);
    },
  });
  return {
    table: <V>(name: TableName) => watched(name, store.table<V>(name)),
    refresh: () => store.refresh(),
    close: () => store.close(),
    transaction: (work) =>
      store.transaction(() => {
        admit();
        return work();
      }),
  };
}

t.test('expired rows are erased table by table, in key order', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  for (let n = 0; n < 200; n++) await open.responses.save(record({ id: `resp_${hex(48)}`, createdAt: START + n }));
  const removed: { table: TableName; key: string }[] = [];
  const responses = openResponseStore(
    noting(open.store, removed),
    { retention_days: 30 },
    { now: () => START + 31 * DAY },
  );
  t.teardown(() => responses.close());
  await responses.sweep();
  t.same([await open.rows(), await open.noted()], [EMPTY, 0]);
  const keysOf = (table: TableName): string[] => removed.filter((one) => one.table === table).map(({ key }) => key);
  for (const table of ['response-items', 'responses-by-organization', 'response-times'] as const)
    t.same(keysOf(table), keysOf(table).sort(), `${table}, ascending`);
  for (const table of ['responses', 'response-outputs', 'response-inputs', 'response-resources'] as const)
    t.same(keysOf(table), keysOf(table).sort().reverse(), `${table}, descending`);
  t.same(
    removed
      .filter(({ table }, at) => at === 0 || removed[at - 1]?.table !== table)
      .map(({ table }) => table)
      .filter((table) => !/^response(s|-outputs|-inputs|-resources)$/.test(table)),
    ['response-items', 'responses-by-organization', 'response-times'],
    'each of these tables is processed once',
  );
  t.equal(removed.length, 200 * 8, 'no row is removed twice');
});

t.test('ids start with the time, so that data stored at the same time is adjacent', async (t) => {
  const before = [newResponseId(), newItemId('msg')];
  await sleep(5);
  const after = [newResponseId(), newItemId('msg')];
  for (const [at, id] of before.entries()) t.ok(id < (after[at] as string), `${id} sorts before ${after[at]}`);
  t.ok(isResponseId(before[0] as string));
  const ends = Array.from({ length: 1_000 }, () => newResponseId().slice(-36));
  t.equal(new Set(ends).size, 1_000);
  for (const digit of '0123456789abcdef')
    t.ok(
      ends.every((end) => end.length === 36) && ends.some((end) => end.startsWith(digit)),
      `${digit} is the first random digit of at least one id`,
    );
});

t.test('a sweep interrupted at any transaction loses no needed data, and the next sweep erases the rest', async (t) => {
  let whole = false;
  for (let admitted = 1; !whole; admitted++) {
    const open = await openResponses();
    const { responses, clock } = open;
    const [root, middle] = [record(), record({ createdAt: START + 1 })];
    const last = record({ createdAt: START + 25 * DAY, previousId: middle.id });
    await responses.save(root);
    await responses.save({ ...middle, previousId: root.id });
    await responses.save(last);
    const image = message(
      'user',
      [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }],
      [new Uint8Array([1])],
    );
    const logged = record({ background: true, status: 'queued', output: [] });
    for (const one of [record(), record({ input: [image] }), logged]) await responses.save(one);
    await responses.appendEvents(logged.id, [{ sequence: 0, type: 'response.created', data: '{}' }]);
    clock.now = START + 31 * DAY;
    let seen = 0;
    // The first transaction is refused, as on a full disk; after that, each transaction makes one small step.
    const admit = (): void => {
      if (seen++ === 0 || seen > admitted) throw refusedWrite(new UndoneWrite('No space left on device'));
    };
    let failures = 0;
    const cut = openResponseStore(
      noting(open.store, [], admit),
      { retention_days: 30 },
      {
        now: () => clock.now,
        onError: () => {
          failures++;
        },
      },
    );
    await cut.sweep().catch(() => undefined); // This runs after the sweep at startup.
    await cut.close();
    whole = failures === 0;
    await open.reopen();
    await open.responses.sweep();
    const chain = await open.responses.chain('org_a', last.id);
    chain?.release();
    if (
      JSON.stringify(chain?.responses.map(({ id, input }) => [id, input[0]?.id])) !==
      JSON.stringify([root, middle, last].map(({ id, input }) => [id, input[0]?.id]))
    )
      t.fail(`after ${admitted} transactions, the chain is damaged`);
    if ((await open.rows())['responses'] !== 3)
      t.fail(`after ${admitted} transactions, rows are left: ${JSON.stringify(await open.rows())}`);
    clock.now = START + 400 * DAY;
    await open.responses.sweep();
    t.same([await open.rows(), await open.noted()], [EMPTY, 0], `${admitted} transactions admitted`);
    await open.close();
  }
});

t.test('saves on a full disk fail with 503, and reads, deletions and expiry still work', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-responses-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const script = join(import.meta.dirname, 'full-disk.js');
  const child = spawn('bash', ['-c', 'ulimit -f 2000 && exec "$0" "$@"', process.execPath, script, path], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  const met = JSON.parse(text) as {
    saved: number;
    readable: number;
    deleted: boolean;
    swept: unknown;
    left: number;
    savedAgain: boolean;
    errors: unknown[];
    logged: string[];
    unhandled: number;
  };
  t.ok(met.saved > 0 && met.errors.length > 1, `${met.saved} responses saved, ${met.errors.length} refused`);
  for (const error of met.errors) t.same(error, [503, 'maintenance', 'The server cannot store responses right now.']);
  t.same(met.logged, ['StorageError'], 'the failure is logged at most once a minute');
  t.match(met, { readable: met.saved, deleted: true, unhandled: 0 });
  t.match(
    met,
    { swept: 'all', left: 0, savedAgain: true },
    'expired responses are erased, and new ones can be saved again',
  );
});
