// Tests failures after a create request has been admitted, and how complete, streamed and background responses report
// them: section 9 of the contract for errors and limits.
import OpenAI from 'openai';
import t from 'tap';
import { checkStream, type Event } from '../protocol/responses-stream.js';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

// The engine runs one sequence at a time, and requests that wait longer than 600 ms are rejected. Speculation is off
// because it would finish the long script too soon.
const server = await startScripted({
  env: {
    MONOLITH_ENGINE_MAX_SEQUENCES: '1',
    MONOLITH_ENGINE_SPECULATION: 'off',
    MONOLITH_ENGINE_QUEUE_WAIT_MS: '600',
    MONOLITH_HTTP_KEEPALIVE_MS: '100',
    MONOLITH_ENGINE_DRAIN_MS: '200',
  },
});
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const body = { model: 'clarke-1.0', input: 'A: please', reasoning: { effort: 'none' as const } };

const endless: Event[] = [];
const stream = await client.responses.create({ ...body, input: 'L: please', stream: true });
let begun!: () => void;
const running = new Promise<void>((resolve) => {
  begun = resolve;
});
const occupied = (async () => {
  for await (const event of stream) {
    endless.push(event as unknown as Event);
    if (event.type === 'response.output_text.delta') begun();
  }
})();
await running;

t.test('a request that waits too long gets status 503 if nothing was sent yet', async (t) => {
  await t.rejects(client.responses.create(body), { status: 503, code: 'capacity_exhausted' });
});

t.test('a stream that waits too long after a keep-alive ends with response.failed', async (t) => {
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true }),
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
  });
  t.equal(response.status, 200);
  const text = await response.text();
  t.ok(text.startsWith(': keep-alive\n'));
  const events = [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data!) as Event);
  t.same(
    events.map(({ type }) => type),
    ['response.created', 'error', 'response.failed'],
  );
  t.same(
    events.map(({ sequence_number }) => sequence_number),
    [0, 1, 2],
  );
  t.match(events[1], {
    code: 'capacity_exhausted',
    error: { type: 'service_unavailable', code: 'capacity_exhausted' },
    param: null,
  });
  t.match(events[2]!.response, {
    id: events[0]!.response!.id,
    status: 'failed',
    error: { code: 'server_error' },
    output: [],
    usage: null,
  });
  t.ok(text.endsWith('data: [DONE]\n\n'));
  await t.rejects(
    client.responses.create({ ...body, previous_response_id: events[2]!.response!.id }),
    { status: 422, code: 'response_not_usable' },
    'the failed response was stored and cannot be continued',
  );
  await t.rejects(client.responses.stream(body).finalResponse(), { code: 'capacity_exhausted' });
});

t.test('a background response that waits too long fails with rate_limit_exceeded', async (t) => {
  const { id, status } = await client.responses.create({ ...body, background: true });
  t.equal(status, 'queued');
  t.ok(await eventually(async () => (await client.responses.retrieve(id)).status === 'failed'));
  t.match(await client.responses.retrieve(id), {
    error: { code: 'rate_limit_exceeded' },
    output: [],
    usage: null,
    completed_at: null,
  });
});

t.test('a server shutdown ends a running response early as incomplete', async (t) => {
  t.equal(await server.stop(), 0);
  await occupied;
  const response = checkStream(endless, { reasoning: 'response.reasoning_text' });
  t.match(response, {
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    output: [{ type: 'message', status: 'incomplete' }],
  });
});
