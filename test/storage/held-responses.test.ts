import t from 'tap';
import { newResponseId } from '../../src/shared/ids.js';
import { HeldResponses } from '../../src/storage/held-responses.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import { openResponses, record } from './records.js';

t.test('a response held by one thread is not erased by another', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const held = new SharedArrayBuffer(HeldResponses.bytes(3));
  const now = (): number => open.clock.now;
  const [primary, reader, deleter] = [0, 1, 2].map((row) =>
    openResponseStore(
      open.store,
      { retention_days: 30 },
      { now, shared: { primary: row === 0, held: new HeldResponses(held, row) } },
    ),
  ) as [typeof open.responses, typeof open.responses, typeof open.responses];
  t.teardown(async () => {
    for (const store of [primary, reader, deleter]) await store.close();
  });
  const stored = (id: string): boolean => open.store.table('responses').get(id) !== undefined;

  const root = record();
  await reader.save(root);
  const { release } = (await reader.chain('org_a', root.id))!;
  t.equal(await deleter.delete('org_a', root.id), true);
  await primary.sweep();
  t.equal(await reader.get('org_a', root.id), null, 'the deleted response is no longer returned');
  t.ok(stored(root.id), 'its items are kept for the continuation that holds it');
  const child = record({ previousId: root.id });
  await reader.save(child);
  release();
  t.equal((await deleter.chain('org_a', child.id))?.responses.length, 2);

  const lost = record();
  await reader.save(lost);
  await reader.chain('org_a', lost.id);
  await deleter.delete('org_a', lost.id);
  t.ok(stored(lost.id));
  new HeldResponses(held).clear(1); // the thread that held the response has ended
  await primary.sweep();
  t.notOk(stored(lost.id), 'the response is erased once no thread holds it');
});

t.test('HeldResponses tells ids apart and counts the holds of each', (t) => {
  const held = new HeldResponses();
  const [id, ...others] = Array.from({ length: 100 }, newResponseId) as [string, ...string[]];
  held.hold(id);
  held.hold(id);
  t.ok(held.has(id));
  t.ok(others.filter((other) => held.has(other)).length < 3, 'hardly any other id collides with it');
  held.release(id);
  t.ok(held.has(id));
  held.release(id);
  t.notOk(held.has(id));
  t.end();
});
