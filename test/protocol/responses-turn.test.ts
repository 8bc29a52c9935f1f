// The beginning of a turn, over a real store.
import t from 'tap';
import type { ServedModel } from '../../src/generation/served-models.js';
import type { Caller } from '../../src/protocol/generation-run.js';
import { findChain } from '../../src/protocol/responses/input-chain.js';
import { parseCreate } from '../../src/protocol/responses/parse.js';
import { startTurn, type TurnDeps } from '../../src/protocol/responses/turn.js';
import { KeyRing } from '../../src/sealing/key-ring.js';
import { KeySealer } from '../../src/sealing/key-sealer.js';
import { EMPTY, openResponses, record } from '../storage/records.js';

t.test('a parent that another thread erases between the reading and the holding is not found', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const { responses } = open;
  const model: ServedModel = {
    name: 'm', asked: 'm', lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
    sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 }, ready: () => { throw new Error('nothing is generated'); },
  };
  const parent = record();
  await responses.save(parent);
  const created = parseCreate({ input: 'x', previous_response_id: parent.id }, { organizationId: 'org_a', sealer: new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m']) })
    .content({ model, chain: findChain(responses, 'org_a', parent.id), item: () => null });
  await responses.delete('org_a', parent.id);
  const caller = { identity: { organizationId: 'org_a' } } as Caller;
  // All that is reached of the rest: it ends before anything is admitted.
  await t.rejects(startTurn({ responses } as TurnDeps, caller, model, created, { take: null, dialect: 'openai', errorEvents: false }), { status: 404, code: 'previous_response_not_found', param: 'previous_response_id' });
  t.same(open.rows(), EMPTY, 'nor is anything held');
});
