// Tests background responses that are polled, streamed, resumed, cancelled while queued or running, or interrupted by a
// restart.
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import t from 'tap';
import { mismatch, openResponsesEvents } from '../support/open-api.js';
import { said, startScripted } from '../support/script-model.js';
import { ask, events } from '../support/wire.js';
import { eventually } from './monolith.js';
import type { Head } from '../../src/storage/lmdb/responses/response-tables.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

type Event = OpenAI.Responses.ResponseStreamEvent;
const model = 'tycho-1.0';
const ENDLESS = { model, input: 'L: tell me', background: true, max_output_tokens: 8_000 };

const data = dataFolder();
const settings = {
  args: ['--engine-max-sequences', '2', '--engine-drain-ms', '100'],
  env: { MONOLITH_DATA_DIR: data.path, MONOLITH_LIMITS_CONCURRENCY: '4' },
};
let server = await startScripted(settings);
t.teardown(async () => {
  await server.stop();
  data.remove();
});
const clientOf = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
let client = clientOf();

const status = async (id: string) => (await client.responses.retrieve(id)).status!;
const until = async (id: string, wanted: string) => {
  if (!(await eventually(async () => (await status(id)) === wanted)))
    throw new Error(`${id} is ${await status(id)}, not ${wanted}`);
};
const collect = async (stream: AsyncIterable<Event>) => {
  const all: Event[] = [];
  for await (const event of stream) all.push(event);
  return all;
};
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const numbers = (all: readonly Event[]) => all.map(({ sequence_number }) => sequence_number);

t.test('a background response is returned immediately as queued and can be polled', async (t) => {
  const {
    data: created,
    response: { headers },
  } = await client.responses.create({ model, input: 'A: x', background: true }).withResponse();
  t.equal(headers.get('x-ratelimit-remaining-concurrency'), '3', 'the background response occupies a concurrency slot');
  t.match(created, { status: 'queued', background: true, output: [], usage: null });
  t.equal(mismatch('openresponses', 'ResponseResource', plain(withoutText(created))), null);
  await until(created.id, 'completed');
  const done = await client.responses.retrieve(created.id);
  t.equal(done.output_text, said('A').content);
  t.ok(done.usage!.output_tokens > 0);
  const next = await client.responses.create({ model, previous_response_id: created.id, input: 'S: y' });
  t.equal(next.status, 'completed', 'the completed response can be continued');
  t.match(await ask(server, '/v1/responses', { model, input: 'x', background: true, store: false }), {
    status: 422,
    body: { error: { code: 'conflicting_parameters' } },
  });
});

t.test('a streamed background response is replayed from its event log with the same events', async (t) => {
  const live = await collect(
    await client.responses.create({
      model,
      input: 'K: weather?',
      background: true,
      stream: true,
      reasoning: { effort: 'medium' },
    }),
  );
  t.same(
    live.slice(0, 3).map(({ type }) => type),
    ['response.created', 'response.queued', 'response.in_progress'],
  );
  t.same(
    numbers(live),
    live.map((_, index) => index),
  );
  const [first] = live;
  if (first?.type !== 'response.created') throw new Error('the first event is not response.created');
  const { id } = first.response;
  t.same(
    await collect(await client.responses.retrieve(id, { stream: true })),
    live,
    'the replay has the same events as the live stream',
  );
  t.same(await collect(await client.responses.retrieve(id, { stream: true, starting_after: 7 })), live.slice(8));
  for (const after of [live.length - 1, live.length, 99_999])
    t.same(
      await collect(await client.responses.retrieve(id, { stream: true, starting_after: after })),
      [],
      `no events follow starting_after=${after}`,
    );
  t.equal((await client.responses.stream({ response_id: id, starting_after: 5 }).finalResponse()).status, 'completed');
  const foreign = await events(
    await fetch(`${server.url}/v1/responses/${id}?stream=true`, { headers: { authorization: `Bearer ${server.key}` } }),
  );
  const published = openResponsesEvents();
  for (const { event, data: text } of foreign.slice(0, -1))
    t.equal(
      mismatch('openresponses', published.get(event ?? '') ?? `no schema for event ${event}`, JSON.parse(text)),
      null,
      event ?? '',
    );
  t.ok(
    foreign.some(({ event }) => event === 'response.reasoning.delta'),
    'the replay uses the event names of the requesting client',
  );
});

t.test('an interrupted stream can be resumed and follows live; closing it does not stop the response', async (t) => {
  const stream = await client.responses.create({ ...ENDLESS, max_output_tokens: 1_500, stream: true });
  const seen: Event[] = [];
  for await (const event of stream) {
    seen.push(event);
    if (seen.length === 40) break; // leaving the loop closes the connection
  }
  const [first] = seen;
  if (first?.type !== 'response.created') throw new Error('the first event is not response.created');
  const { id } = first.response;
  const readers = await Promise.all(
    [39, 39, 10].map(async (after) =>
      collect(await client.responses.retrieve(id, { stream: true, starting_after: after })),
    ),
  );
  const rest = readers[0]!;
  t.same(
    numbers([...seen, ...rest]),
    [...seen, ...rest].map((_, index) => index),
    'no event is missing or repeated',
  );
  t.same(readers[1], rest, 'several readers may follow the same response');
  t.same(readers[2]!.slice(29), rest);
  const last = rest.at(-1)!;
  if (last.type !== 'response.incomplete') throw new Error(last.type);
  const text = [...seen, ...rest]
    .map((event) => (event.type === 'response.output_text.delta' ? event.delta : ''))
    .join('');
  t.equal(
    text,
    (last.response.output[0] as OpenAI.Responses.ResponseOutputMessage).content
      .map((part) => (part as { text: string }).text)
      .join(''),
  );
  t.same(plain((await client.responses.retrieve(id)).output), plain(last.response.output));
});

t.test('a slow reader receives an event log larger than its send buffer in full', async (t) => {
  const { id } = await client.responses.create(ENDLESS);
  await until(id, 'incomplete');
  const response = await fetch(`${server.url}/v1/responses/${id}?stream=true`, {
    headers: { authorization: `Bearer ${server.key}` },
  });
  await sleep(300); // the client reads nothing in the meantime; the log must wait for it and not be dropped
  const all = await events(response);
  t.ok(all.reduce((bytes, { data: text }) => bytes + text.length, 0) > 1_048_576);
  t.same(
    all.slice(0, -1).map(({ data: text }) => (JSON.parse(text) as Event).sequence_number),
    all.slice(0, -1).map((_, index) => index),
  );
  t.equal(all.at(-2)?.event, 'response.incomplete');
});

t.test(
  'a response whose event log is missing or truncated is replayed without inventing events after starting_after',
  async (t) => {
    const { id } = await client.responses.create({ model, input: 'A: x', background: true });
    await until(id, 'completed');
    const live = await collect(await client.responses.retrieve(id, { stream: true }));
    await inside(data.path, async (store) => {
      const rows = store.table<unknown[]>('response-events');
      const [last] = [...rows.range({ from: [id, Infinity], to: [id], reverse: true, limit: 1 })];
      await (last!.value.length > 1 ? rows.put(last!.key, last!.value.slice(0, -1)) : rows.remove(last!.key));
    });
    t.same(
      await collect(await client.responses.retrieve(id, { stream: true })),
      live,
      'the missing end is rebuilt from the stored response',
    );
    for (const after of [live.length - 1, live.length + 5])
      t.same(await collect(await client.responses.retrieve(id, { stream: true, starting_after: after })), []);
    await inside(data.path, async (store) => {
      const heads = store.table<Head>('responses');
      await heads.put(id, { ...heads.get(id)!, logUntil: 1 });
    });
    const all = await collect(await client.responses.retrieve(id, { stream: true }));
    t.equal(all.at(-1)?.type, 'response.completed');
    t.same(await collect(await client.responses.retrieve(id, { stream: true, starting_after: all.length + 5 })), []);
  },
);

t.test('deleting a running response ends the stream of every reader with the same event', async (t) => {
  const { id } = await client.responses.create({ ...ENDLESS, max_output_tokens: 16_000 });
  await ofLength(id, 4_000);
  const following = await Promise.all(
    [-1, -1, -1, 1_000, 2_000, 3_900].map((after) =>
      fetch(`${server.url}/v1/responses/${id}?stream=true${after < 0 ? '' : `&starting_after=${after}`}`, {
        headers: { authorization: `Bearer ${server.key}` },
      }),
    ),
  );
  const deleted = client.responses.delete(id);
  const ends = await Promise.all(following.map(async (response) => (await events(response)).slice(-2)));
  await deleted;
  t.match(ends[0], [{ event: 'response.incomplete', data: /"status":"cancelled"/ }, { data: '[DONE]' }]);
  for (const end of ends) t.same(end, ends[0]);
  await t.rejects(client.responses.retrieve(id), { status: 404, code: 'response_not_found' });
});

t.test('cancelling a running response keeps its partial output', async (t) => {
  const { id } = await client.responses.create(ENDLESS);
  const following = client.responses.retrieve(id, { stream: true }).then(collect);
  await until(id, 'in_progress');
  await ofLength(id, 20);
  const cancelled = await client.responses.cancel(id);
  t.equal(cancelled.status, 'cancelled');
  t.match(cancelled.output, [{ type: 'message', status: 'incomplete', content: [{ text: /^Once upon a time/ }] }]);
  t.ok(cancelled.usage!.output_tokens > 0);
  t.same(withoutText(await client.responses.retrieve(id)), cancelled);
  t.same(await client.responses.cancel(id), cancelled, 'cancelling again returns the same response');
  const all = await following;
  t.same(
    numbers(all),
    all.map((_, index) => index),
  );
  t.match(all.at(-1), { type: 'response.incomplete', response: { status: 'cancelled' } });
  await t.rejects(client.responses.create({ model, previous_response_id: id, input: 'x' }), {
    status: 422,
    code: 'response_not_usable',
  });
});

t.test(
  'a queued response can be cancelled, and a response holds its concurrency slot from creation to end',
  async (t) => {
    const running = [await client.responses.create(ENDLESS), await client.responses.create(ENDLESS)];
    for (const { id } of running) await until(id, 'in_progress');
    const queued = await client.responses.create(ENDLESS);
    const deleted = await client.responses.create(ENDLESS);
    t.match(await ask(server, '/v1/responses', { model, input: 'A: x' }), {
      status: 429,
      body: { error: { code: 'concurrency_limit_exceeded' } },
    });
    t.equal(await status(queued.id), 'queued');
    await t.rejects(client.responses.create({ model, previous_response_id: queued.id, input: 'x' }), {
      status: 422,
      code: 'response_not_usable',
    });
    const cancelled = await client.responses.cancel(queued.id);
    t.match(cancelled, { status: 'cancelled', output: [] });
    await client.responses.delete(deleted.id);
    await t.rejects(client.responses.retrieve(deleted.id), { status: 404, code: 'response_not_found' });
    for (const { id } of running) await client.responses.delete(id);
    await Promise.all([1, 2, 3, 4].map(() => client.responses.create({ model, input: 'A: x' })));
    t.pass('all concurrency slots are free again');
  },
);

t.test(
  'a graceful shutdown ends background responses early, and SIGKILL makes them fail after the restart',
  async (t) => {
    const early = await client.responses.create({ ...ENDLESS, max_output_tokens: 16_000 });
    await until(early.id, 'in_progress');
    server.process.kill('SIGTERM');
    await new Promise((done) => server.process.once('exit', done));
    server = await startScripted(settings);
    client = clientOf();
    const ended = await client.responses.retrieve(early.id);
    t.match(ended, { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    t.ok(ended.usage!.output_tokens < 15_000, 'the response ended before reaching max_output_tokens');

    const stream = await client.responses.create({ ...ENDLESS, max_output_tokens: 16_000, stream: true });
    const seen: Event[] = [];
    await t.rejects(
      (async () => {
        for await (const event of stream) {
          seen.push(event);
          if (seen.length === 300) server.process.kill('SIGKILL');
        }
      })(),
    );
    const [first] = seen;
    if (first?.type !== 'response.created') throw new Error('the first event is not response.created');
    await new Promise((done) => {
      if (server.process.exitCode !== null || server.process.signalCode !== null) done(null);
      else server.process.once('exit', done);
    });
    server = await startScripted(settings);
    client = clientOf();
    const { id } = first.response;
    const failed = await client.responses.retrieve(id);
    t.match(failed, {
      status: 'failed',
      error: { code: 'server_error', message: /restarted/ },
      output: [{ type: 'message', status: 'incomplete' }],
    });
    const replay = await events(
      await fetch(`${server.url}/v1/responses/${id}?stream=true`, {
        headers: { authorization: `Bearer ${server.key}` },
      }),
    );
    t.same(
      replay.slice(-3).map(({ event, data: text }) => event ?? text),
      ['error', 'response.failed', '[DONE]'],
      'the event log ends with the failure',
    );
    const replayed = replay.slice(0, -1).map(({ data: text }) => JSON.parse(text) as Event);
    t.same(
      numbers(replayed),
      replayed.map((_, index) => index),
    );
    t.same(
      replayed.slice(0, seen.length),
      seen,
      'events received before the crash are unchanged, and no sequence number is reused',
    );
    const told = replayed.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
    t.equal(failed.output_text, told, 'the stored output equals the streamed text');
    const rows = await inside(data.path, (store) =>
      Promise.resolve(
        [...store.table<FinishedUsage>('usage-rows').range()]
          .map(({ value }) => value)
          .filter(({ errorCode }) => errorCode === 'internal_error'),
      ),
    );
    t.match(
      rows,
      [
        {
          status: 'failed',
          outputTokens: failed.usage!.output_tokens,
          inputTokens: failed.usage!.input_tokens,
          finishReason: null,
        },
      ],
      'the tokens of the failed response are recorded as usage',
    );
    t.ok(
      failed.usage!.output_tokens >= 0.9 * replayed.filter(({ type }) => type === 'response.output_text.delta').length,
    );
    const after = await events(
      await fetch(`${server.url}/v1/responses/${id}?stream=true&starting_after=${seen.length - 1}`, {
        headers: { authorization: `Bearer ${server.key}` },
      }),
    );
    t.same(
      after.map(({ event, data: text }) => event ?? text).slice(-3),
      ['error', 'response.failed', '[DONE]'],
      'a resumed stream ends with the failure',
    );
    await client.responses.delete(id);
  },
);

/** Waits until the response's event log has at least `count` events. */
async function ofLength(id: string, count: number): Promise<void> {
  await inside(data.path, async (store) => {
    await eventually(
      () => [...store.table('response-events').keys({ from: [id, count], to: [id, Infinity], limit: 1 })].length > 0,
    );
  });
}

/** Removes `output_text`, which the OpenAI client adds. */
function withoutText({ output_text: _, ...response }: OpenAI.Responses.Response): object {
  return response;
}
