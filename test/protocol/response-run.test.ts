// Tests how a response run starts, with a real store.
import t from 'tap';
import { apiError } from '../../src/shared/errors.js';
import type { ServedModel } from '../../src/generation/served-models.js';
import type { Caller } from '../../src/protocol/caller.js';
import { BackgroundRun } from '../../src/protocol/responses/background.js';
import { findChain, readContent } from '../../src/protocol/responses/input-chain.js';
import { parseCreate } from '../../src/protocol/responses/parse.js';
import { startResponseRun, type ResponseRun, type ResponseRunDeps } from '../../src/protocol/responses/response-run.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { LocalBus } from '../../src/shared/bus.js';
import type { Telemetry } from '../../src/telemetry/types.js';
import { EMPTY, openResponses, record } from '../storage/records.js';

const model: ServedModel = {
  name: 'm',
  recordedAs: 'm',
  asked: 'm',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => {
    throw apiError('model_loading', 'nothing is generated');
  },
};
const parsed = (body: object) =>
  parseCreate(
    { input: 'x', ...body },
    { organizationId: 'org_a', sealer: new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m']) },
  );
const charged = <T>(work: () => T): T => work();

t.test('a parent response is kept from its lookup until the run ends for any reason', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const { responses } = open;
  const lookup = { organizationId: 'org_a', responses, charged, findModel: () => model };
  const caller = { identity: { organizationId: 'org_a' }, setHeader: () => undefined } as unknown as Caller;
  const deps = {
    responses,
    admission: { headers: () => [] },
    limits: { maxN: 1, maxTools: 1 },
  } as unknown as ResponseRunDeps;
  const begin = async (body: object = {}) => {
    const parent = record();
    await responses.save(parent);
    const continued = await findChain(responses, 'org_a', parent.id);
    await responses.delete('org_a', parent.id);
    t.ok((await open.rows())['responses'], 'the parent is deleted but not erased yet');
    await t.rejects(findChain(responses, 'org_a', parent.id), {
      code: 'previous_response_not_found',
      message: `Previous response with id "${parent.id}" not found.`,
    });
    return readContent(parsed({ previous_response_id: parent.id, ...body }), continued, lookup);
  };

  await t.rejects(begin({ input: [{ type: 'item_reference', id: 'msg_none' }] }), { code: 'item_not_found' });
  await responses.sweep();
  t.same(await open.rows(), EMPTY, 'a request refused for its content releases the parent');

  const { created } = await begin();
  // `deps` and `caller` have only the members used before admission, and the request fails before anything is admitted.
  await t.rejects(
    startResponseRun(deps, caller, model, created, { take: null, dialect: 'openai', errorEvents: false }),
    {
      code: 'model_loading',
    },
  );
  await responses.sweep();
  t.same(await open.rows(), EMPTY, 'a request that is not admitted releases the parent');
});

t.test('a request without stored references is parsed in one go', async (t) => {
  let read = 0;
  void readContent(
    parsed({ model: 'm' }),
    { chain: [], base: null, tail: [], release: () => undefined },
    {
      organizationId: 'org_a',
      responses: {
        items: () => {
          throw new Error('must not look anything up');
        },
      },
      findModel: () => model,
      charged: (work) => {
        read++;
        return work();
      },
    },
  );
  t.equal(read, 1, 'the content is read before the body is freed');
});

t.test('the input of a background response is freed once it is stored', async (t) => {
  const open = await openResponses();
  t.teardown(() => open.close());
  const queued = { ...record(), status: 'queued' as const, background: true };
  let forgotten = 0;
  const turn = {
    record: () => queued,
    done: new Promise(() => undefined),
    forgetInput: () => {
      forgotten++;
    },
  } as unknown as ResponseRun;
  const run = new BackgroundRun(open.responses, {} as Telemetry, new LocalBus());
  const stored = run.begin(turn);
  t.equal(forgotten, 0, 'the input is not freed before it is stored');
  await stored;
  t.equal(forgotten, 1);
  t.same(run.queued.input, []);
  const chain = await open.responses.inputItems('org_a', queued.id, {
    newestFirst: false,
    after: null,
    limit: 100,
    images: false,
  });
  t.equal(typeof chain === 'string' ? chain : chain.items.length, queued.input.length, 'the input is in storage');
});
