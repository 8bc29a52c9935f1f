// Tests the limit on image memory for upstream requests: if many large images wait for a slow upstream, further images
// are refused for all clients. Each request frees its memory when it ends.
import sharp from 'sharp';
import t from 'tap';
import { eventually } from '../../e2e/monolith.js';
import { startGateway, startStandIn, stream } from '../../support/stand-in.js';

const picture = await sharp(
  Buffer.from(
    Array.from({ length: 64 * 64 * 3 }, (_, i) => (Math.imul(i + 1, 0x9e3779b1) ^ Math.imul(i + 7, 0x85ebca6b)) >>> 24),
  ),
  { raw: { width: 64, height: 64, channels: 3 } },
)
  .png()
  .toBuffer();
const standIn = await startStandIn(() => undefined); // Records requests and never responds.
const gateway = await startGateway(
  { far: { upstream: { url: standIn.url, images: true } } },
  { images: { max_bytes: picture.length, max_held_bytes: 1_024 }, upstream: { retries: 0 } },
);
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

const asked = (init: RequestInit = {}): Promise<Response> =>
  gateway.post(
    '/v1/chat/completions',
    {
      model: 'far',
      max_tokens: 5,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${picture.toString('base64')}` } },
          ],
        },
      ],
    },
    init,
  );
const refused = async (t: Tap): Promise<void> => {
  const response = await asked({ signal: AbortSignal.timeout(10_000) });
  t.equal(response.status, 503);
  t.equal(response.headers.get('retry-after'), '2');
  t.match(await response.json(), { error: { code: 'capacity_exhausted', message: /image bytes/ } });
};
type Tap = Pick<typeof t, 'equal' | 'match' | 'ok'>;

// The images of a single request always fit, even five of the largest images, so five requests with one image each fit
// as well.
const FIT = 5;

t.test('requests in progress hold image memory, and further requests are refused until one finishes', async (t) => {
  const clients = Array.from({ length: FIT }, () => new AbortController());
  const waiting = clients.map((client) =>
    asked({ signal: client.signal }).then(
      (response) => response.status,
      () => 'left',
    ),
  );
  t.ok(await eventually(() => standIn.heard.length === FIT));
  await refused(t);
  clients[0]!.abort();
  t.ok(await eventually(async () => standIn.left === 1));
  const next = new AbortController();
  waiting.push(
    asked({ signal: next.signal }).then(
      (response) => response.status,
      () => 'left',
    ),
  );
  t.ok(await eventually(() => standIn.heard.length === FIT + 1), 'a disconnect freed memory for one request');
  await refused(t);
  for (const client of [...clients, next]) client.abort();
  t.strictSame(
    await Promise.all(waiting),
    Array.from({ length: FIT + 1 }, () => 'left'),
  );
  t.ok(await eventually(async () => standIn.left === FIT + 1));

  standIn.say = stream(
    {
      choices: [{ index: 0, delta: { content: 'A cat.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 9, completion_tokens: 3 },
    },
    '[DONE]',
  );
  for (let i = 0; i < 2 * FIT; i++) t.equal((await asked()).status, 200, 'completed responses free their image memory');
  const counted = {
    model: 'far',
    max_tokens: 5,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture.toString('base64') } },
        ],
      },
    ],
  };
  for (let i = 0; i < 2 * FIT; i++)
    t.equal(
      (await gateway.post('/v1/messages/count_tokens', counted)).status,
      200,
      'count requests free their image memory',
    );
  const damaged = {
    ...counted,
    messages: [
      {
        role: 'user',
        content: [
          {
            type: 'image',
            source: { type: 'base64', media_type: 'image/png', data: picture.subarray(0, 600).toString('base64') },
          },
        ],
      },
    ],
  };
  for (let i = 0; i < 4 * FIT; i++)
    t.equal((await gateway.post('/v1/messages', damaged)).status, 400, 'refused requests free their image memory');
  t.equal((await asked()).status, 200);
});
