// Seconds of clients that leave whenever they like, on every endpoint at once: whole, streamed, in the
// background, on WebSockets, in the middle of a body. Afterwards nothing is left of them: no place, no sequence, no page.
import { connect } from 'node:net';
import t from 'tap';
import { WebSocket } from 'ws';
import type { CreatedApiKey, LimitsObject } from '../../src/wire/dashboard.js';
import { openOwned } from '../support/owned-server.js';
import { randomFrom } from '../support/random.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000);     // for a busy machine

const SECONDS = 8;
const CLIENTS = 24;
const CONNECTIONS = 12;
const models = ['hal-1.0', 'clarke-1.0', 'tycho-1.0'];

const { server, owner, organization, close } = await openOwned({
  args: ['--engine-max-sequences', '6', '--engine-queue-max', '6', '--engine-queue-wait-ms', '300'],
  env: { MONOLITH_LOG_LEVEL: 'error', MONOLITH_LIMITS_CONCURRENCY: '6', MONOLITH_WS_MAX_CONNECTIONS: String(CONNECTIONS), MONOLITH_HTTP_THREADS: process.env['SOAK_THREADS'] ?? '2' },
});
t.teardown(close);
const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'soak', limits: { '*': { concurrency: 5 } } });
const authorization = `Bearer ${secret}`;

const seed = Number(process.env['SOAK_SEED'] ?? Date.now() % 1_000_000);
t.comment(`seed ${seed}`);
const { below: draw, pick } = randomFrom(seed);
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const statuses = new Map<string, number>();
const note = (what: string): void => { statuses.set(what, (statuses.get(what) ?? 0) + 1); };

const text = (): string => `${pick(['A', 'H', 'L', 'L', 'R', 'W', 'E'])}: ${'x'.repeat(draw(200))}`;
const kinds: Record<string, () => { path: string; body: object }> = {
  chat: () => ({ path: '/v1/chat/completions', body: { model: pick(models), messages: [{ role: 'user', content: text() }], max_completion_tokens: 1 + draw(600), stream: draw(2) === 0, n: 1 + draw(2) } }),
  messages: () => ({ path: '/v1/messages', body: { model: pick(models), messages: [{ role: 'user', content: text() }], max_tokens: 1 + draw(600), stream: draw(2) === 0 } }),
  responses: () => ({ path: '/v1/responses', body: { model: pick(models), input: text(), max_output_tokens: 16 + draw(600), stream: draw(2) === 0, store: draw(2) === 0 } }),
  background: () => ({ path: '/v1/responses', body: { model: pick(models), input: text(), max_output_tokens: 16 + draw(300), stream: draw(2) === 0, background: true } }),
  compact: () => ({ path: '/v1/responses/compact', body: { model: pick(models), input: text() } }),
  count: () => ({ path: '/v1/messages/count_tokens', body: { model: pick(models), messages: [{ role: 'user', content: text() }] } }),
  wrong: () => ({ path: pick(['/v1/chat/completions', '/v1/messages', '/v1/responses']), body: { model: pick([...models, 'nothing']), messages: [{ role: 'user', content: text() }], input: 7, temperature: 9 } }),
};

async function overHttp(): Promise<void> {
  const { path, body } = (kinds[pick(Object.keys(kinds))] as () => { path: string; body: object })();
  const controller = new AbortController();
  const timer = draw(3) === 0 ? null : setTimeout(() => controller.abort(), draw(draw(2) === 0 ? 8 : 250));
  try {
    const response = await fetch(`${server.url}${path}`, { method: 'POST', body: JSON.stringify(body), headers: { authorization, 'content-type': 'application/json' }, signal: controller.signal });
    note(String(response.status));
    const answer = await response.text();
    const id = /"id":"(resp_[0-9a-f]+)"/.exec(answer)?.[1];
    if (id !== undefined && draw(2) === 0) await (await fetch(`${server.url}/v1/responses/${id}/cancel`, { method: 'POST', headers: { authorization } })).text();
  } catch (error) {
    if (!controller.signal.aborted) throw error;
    note('left');
  } finally {
    if (timer !== null) clearTimeout(timer);
  }
}

/** A body that breaks off, or is no JSON, by a connection that ends in the middle. */
async function broken(): Promise<void> {
  const socket = connect(server.port, '127.0.0.1');
  socket.on('error', () => undefined);
  const body = JSON.stringify({ model: pick(models), messages: [{ role: 'user', content: text() }] });
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${authorization}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, draw(body.length + 1))}`);
  await sleep(draw(60));
  socket.destroy();
  note('broken off');
}

async function overSocket(): Promise<void> {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/responses`, { headers: { authorization } });
  const ended = new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.on('error', () => resolve());
  });
  socket.on('open', () => {
    note('connected');
    for (let turn = draw(3); turn >= 0; turn--) {
      socket.send(draw(8) === 0 ? '{"type":' : JSON.stringify({ type: 'response.create', model: pick(models), input: text(), max_output_tokens: 16 + draw(400), store: false }));
    }
  });
  await Promise.race([ended, sleep(draw(400))]);
  if (draw(2) === 0) socket.close();
  else socket.terminate();
  await ended;
}

t.test('nothing is left', async (t) => {
  const end = performance.now() + SECONDS * 1000;
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    while (performance.now() < end) await pick([overHttp, overHttp, overHttp, overHttp, overSocket, broken])();
  }));
  t.comment(Object.fromEntries(statuses));
  for (const what of ['200', '400', '429', 'left', 'broken off', 'connected']) t.ok((statuses.get(what) ?? 0) > 2, what);
  t.notOk(statuses.has('500'), 'and no failure of our own');

  const limits = (): Promise<LimitsObject> => owner.get(`/organizations/${organization.id}/limits`);
  t.ok(await eventually(async () => (await limits()).models.every(({ concurrency, requests, tokens }) =>
    concurrency.in_use === 0 && requests.remaining === requests.limit && tokens.remaining === tokens.limit), 15_000), 'every place is free, every bucket fills up again');
  t.same((await limits()).models.map(({ concurrency }) => concurrency.in_use), [0, 0, 0]);
  const response = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ model: 'hal-1.0', messages: [{ role: 'user', content: 'A: x' }] }), headers: { authorization, 'content-type': 'application/json' } });
  t.equal(response.headers.get('x-ratelimit-limit-concurrency'), '5', 'the key\'s');
  t.equal(response.headers.get('x-ratelimit-remaining-concurrency'), '4', 'and those of the key');
  await response.text();

  const metrics = await server.metrics();
  const sum = (name: string): number => [...metrics].filter(([one]) => one.startsWith(name)).reduce((all, [, value]) => all + value, 0);
  t.equal(sum('monolith_sequences_running'), 0);
  t.equal(sum('monolith_requests_waiting'), 0);
  const pages = (state: string): number => [...metrics].filter(([one]) => one.startsWith('monolith_kv_pages{') && one.includes(`state="${state}"`)).reduce((all, [, value]) => all + value, 0);
  t.equal(pages('free') + pages('cached'), pages('total'));

  const sockets = await Promise.all(Array.from({ length: CONNECTIONS + 1 }, () => new Promise<WebSocket | null>((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/responses`, { headers: { authorization } });
    socket.on('open', () => resolve(socket));
    socket.on('error', () => resolve(null));
  })));
  t.equal(sockets.filter((socket) => socket !== null).length, CONNECTIONS, 'every connection is free again, and one more is too many');
  for (const socket of sockets) socket?.terminate();
  t.same(server.log().split('\n').filter((line) => /"level":"?(error|50)/.test(line)), [], 'nothing in the log');
});
