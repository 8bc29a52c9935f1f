// Stores items whose IDs have 1,000 characters, and finds them by these IDs, in both databases.
import t, { type Test } from 'tap';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { startScripted } from '../support/script-model.js';
import { ask, get } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const idOf = (last: string): string => `${'é'.repeat(999)}${last}`;

async function storesLongIds(t: Test, args: string[]): Promise<void> {
  const server = await startScripted({ models: ['hal-1.0'], args });
  t.teardown(() => server.stop());
  const send = (input: object[], more: object = {}) =>
    ask(server, '/v1/responses', { model: 'hal-1.0', max_output_tokens: 8, input, ...more });
  const item = (last: string, text: string) => ({ type: 'message', id: idOf(last), role: 'user', content: text });
  const first = await send([item('1', 'A: one'), item('2', 'A: two')]);
  t.equal(first.status, 200, first.text);
  const { id } = first.body as { id: string };

  const referred = await send([{ type: 'item_reference', id: idOf('1') }]);
  t.equal(referred.status, 200, referred.text);
  const { data } = (await get(server, `/v1/responses/${(referred.body as { id: string }).id}/input_items`)).body as {
    data: { id: string; content: { text: string }[] }[];
  };
  t.same(
    data.map((found) => [found.id, found.content[0]?.text]),
    [[idOf('1'), 'A: one']],
  );

  const query = new URLSearchParams({ order: 'asc', after: idOf('1') });
  const page = (await get(server, `/v1/responses/${id}/input_items?${query.toString()}`)).body as {
    data: { id: string }[];
  };
  t.same(
    page.data.map((found) => found.id),
    [idOf('2')],
  );

  const calls = await send([
    { type: 'function_call', call_id: idOf('c'), name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: idOf('c'), output: 'T: x' },
  ]);
  t.equal(calls.status, 200, calls.text);
  const next = await send([{ role: 'user', content: 'A: next' }], {
    previous_response_id: (calls.body as { id: string }).id,
  });
  t.equal(next.status, 200, next.text);
  t.equal((await get(server, `/v1/responses/${id}`, {}, 'DELETE')).status, 200);
  const gone = await send([{ type: 'item_reference', id: idOf('2') }]);
  t.equal(gone.status, 404, 'erased with its response');
}

t.test('LMDB', (t) => storesLongIds(t, []));

t.test('PostgreSQL', { skip: withoutPostgres || withoutRedis }, async (t) => {
  const postgres = await startPostgres();
  t.teardown(() => postgres.close());
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  await storesLongIds(t, ['--database', postgres.url, '--redis', redis.url]);
});
