// For half a minute, clients disconnect at random on all endpoints concurrently: during complete, streamed and
// background requests, on WebSockets, and in the middle of a request body. After that, every concurrency slot, sequence
// slot and KV page must be free. Part of npm run test:slow.
import t from 'tap';
import { WebSocket } from 'ws';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { LimitsObject } from '../../src/shared/wire/limits.js';
import { openOwned } from '../support/owned-server.js';
import { Traffic } from './traffic.js';
import { eventually } from '../e2e/monolith.js';

t.setTimeout(300_000); // the machine may be busy

const SECONDS = 30;
const CLIENTS = 24;
const CONNECTIONS = 12;

const { server, owner, organization, close } = await openOwned({
  args: ['--engine-max-sequences', '6', '--engine-queue-max', '6', '--engine-queue-wait-ms', '300'],
  env: {
    MONOLITH_LOG_LEVEL: 'error',
    MONOLITH_LIMITS_CONCURRENCY: '6',
    MONOLITH_WS_MAX_CONNECTIONS: String(CONNECTIONS),
    MONOLITH_HTTP_THREADS: process.env['SOAK_THREADS'] ?? '2',
  },
});
t.teardown(close);
const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, {
  name: 'soak',
  limits: { '*': { concurrency: 5 } },
});
const authorization = `Bearer ${secret}`;

const seed = Number(process.env['SOAK_SEED'] ?? Date.now() % 1_000_000);
t.comment(`seed ${seed}`);
const traffic = new Traffic({ server, secret, seed, abortPercent: 67 });
const { statuses } = traffic;

t.test('clients that disconnect at random leave no slot, sequence, page or connection in use', async (t) => {
  const wanted = ['200', '400', '429', 'left', 'broken off', 'connected'];
  const came = (what: string): boolean => (statuses.get(what) ?? 0) > 2;
  // On a busy machine, it takes longer until each outcome has occurred more than twice.
  const end = performance.now() + 180_000;
  do await traffic.run(CLIENTS, performance.now() + SECONDS * 1000);
  while (!wanted.every(came) && performance.now() < end);
  t.comment(Object.fromEntries(statuses));
  for (const what of wanted) t.ok(came(what), what);
  t.notOk(statuses.has('500'), 'no request failed with status 500');

  const limits = (): Promise<LimitsObject> => owner.get(`/organizations/${organization.id}/limits`);
  t.ok(
    await eventually(
      async () =>
        (await limits()).models.every(
          ({ concurrency, requests, tokens }) =>
            concurrency.in_use === 0 && requests.remaining === requests.limit && tokens.remaining === tokens.limit,
        ),
      15_000,
    ),
    'every concurrency slot is free, and every rate limit bucket refills',
  );
  t.same(
    (await limits()).models.map(({ concurrency }) => concurrency.in_use),
    [0, 0, 0],
  );
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'hal-1.0', messages: [{ role: 'user', content: 'A: x' }] }),
    headers: { authorization, 'content-type': 'application/json' },
  });
  t.equal(response.headers.get('x-ratelimit-limit-concurrency'), '5', "the concurrency limit is the key's");
  t.equal(response.headers.get('x-ratelimit-remaining-concurrency'), '4', 'one slot of the key is in use');
  await response.text();

  const metrics = await server.metrics();
  const sum = (name: string): number =>
    [...metrics].filter(([one]) => one.startsWith(name)).reduce((all, [, value]) => all + value, 0);
  t.equal(sum('monolith_sequences_running'), 0);
  t.equal(sum('monolith_requests_waiting'), 0);
  const pages = (state: string): number =>
    [...metrics]
      .filter(([one]) => one.startsWith('monolith_kv_pages{') && one.includes(`state="${state}"`))
      .reduce((all, [, value]) => all + value, 0);
  t.equal(pages('free') + pages('cached'), pages('total'));

  const sockets = await Promise.all(
    Array.from(
      { length: CONNECTIONS + 1 },
      () =>
        new Promise<WebSocket | null>((resolve) => {
          const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/responses`, { headers: { authorization } });
          socket.on('open', () => resolve(socket));
          socket.on('error', () => resolve(null));
        }),
    ),
  );
  t.equal(
    sockets.filter((socket) => socket !== null).length,
    CONNECTIONS,
    'every WebSocket slot is free again, and one connection over the limit is refused',
  );
  for (const socket of sockets) socket?.terminate();
  t.same(
    server
      .log()
      .split('\n')
      .filter((line) => /"level":"?(error|50)/.test(line)),
    [],
    'the log has no errors',
  );
});
