// Chains far longer than any context, continued by many requests at once, each of a few bytes: what was read of the chain is
// let go as soon as the prompt is made, or a hundred of them would be the end of the heap.
import t from 'tap';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000);     // for a busy machine

const CHAIN_BYTES = 20_000_000;
const AT_ONCE = 24;

t.test('requests that wait for the model hold nothing of the chain they continue', async (t) => {
  const server = await startMonolith({
    // One at a time, so that the others wait; a heap that has room for some of what they have read, and not for all.
    args: ['--engine-max-sequences', '1', '--limits-loop-ms', 'off'], env: { NODE_OPTIONS: '--max-old-space-size=320' },
  });
  t.teardown(() => server.stop());
  const create = async (body: object): Promise<{ status: number; id: string }> => {
    const response = await fetch(`${server.url}/v1/responses`, {
      method: 'POST', headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tycho-1.0', truncation: 'auto', max_output_tokens: 60, ...body }),
    });
    return { status: response.status, id: (await response.json() as { id: string }).id };
  };
  const { status, id } = await create({ input: [{ role: 'user', content: 'ab c'.repeat(CHAIN_BYTES / 4) }, { role: 'assistant', content: 'ok' }, { role: 'user', content: 'Hi' }] });
  t.equal(status, 200);
  const all = await Promise.all(Array.from({ length: AT_ONCE }, () => create({ previous_response_id: id, input: 'Hi' })));
  t.same(all.map((one) => one.status), Array.from({ length: AT_ONCE }, () => 200));
  t.equal(server.process.exitCode, null);
});
