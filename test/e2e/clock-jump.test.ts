// Tests that a server whose clock is a month ahead at startup deletes nothing and reports why, and that it deletes
// expired data once an operator has confirmed the time.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { clockAhead } from '../support/shifted-clock.js';
import { eventually, main } from './monolith.js';
import type { Monolith } from './monolith.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const AHEAD = clockAhead(31 * 86_400_000);
const TOKEN = 'token-that-reads-all';
const data = dataFolder();
t.teardown(() => data.remove());
const start = (env: Record<string, string> = {}, threads = 1): Promise<Monolith> =>
  startScripted({
    models: ['hal-1.0'],
    args: ['--responses-retention-days', '30', '--metrics-token', TOKEN, '--http-threads', String(threads)],
    env: { MONOLITH_DATA_DIR: data.path, ...env },
  });
const ask = (server: Monolith, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${server.url}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
  });
const sweep = (...args: string[]): string =>
  execFileSync(process.execPath, [main, 'data', 'sweep', ...args, '--data-dir', data.path], {
    encoding: 'utf8',
    env: { ...process.env, ...AHEAD },
  });
const stored = (): Promise<number> => inside(data.path, async (store) => [...store.table('responses').keys()].length);
interface Ready {
  status: string;
  erasure?: { state: string; clock_ahead_ms?: number; held_for_ms?: number };
}
const ready = async (server: Monolith, token: string): Promise<Ready> =>
  (await (await fetch(`${server.url}/readyz`, { headers: { authorization: `Bearer ${token}` } })).json()) as Ready;

t.test('deletes nothing until an operator confirms the time', async (t) => {
  const first = await start();
  const { id } = (await (
    await ask(first, '/v1/responses', { method: 'POST', body: JSON.stringify({ model: 'hal-1.0', input: 'A: go' }) })
  ).json()) as { id: string };
  t.equal((await ready(first, TOKEN)).erasure, undefined);
  await first.stop();

  const ahead = await start(AHEAD, 2);
  for (let n = 0; n < 4; n++)
    t.same(
      [(await ready(ahead, 'sk-nobody')).erasure, (await ready(ahead, 'sk-nobody')).status],
      [{ state: 'held' }, 'ready'],
      'every HTTP worker reports that deletion is suspended',
    );
  const { erasure } = await ready(ahead, TOKEN);
  t.ok(
    Math.abs(erasure!.clock_ahead_ms! - 31 * 86_400_000) < 600_000 && erasure!.held_for_ms! > 5 * 3_600_000,
    JSON.stringify(erasure),
  );
  t.match(ahead.log(), /clock more than a day ahead of the last stored time: deletion of expired data is suspended/);
  t.match(
    sweep(),
    /^Deletion is suspended: the clock shows .* If the clock is correct, run: monolith data sweep --confirm/,
    'the sweep command reports the suspension while a server runs',
  );
  await ahead.stop();
  t.equal(await stored(), 1);

  const right = await start();
  t.equal((await ask(right, `/v1/responses/${id}`)).status, 200);
  t.equal((await ready(right, TOKEN)).erasure, undefined);
  await right.stop();

  t.match(sweep('--confirm'), /^Confirmed: the time is 20.*A running server resumes deletion within a minute/);
  const confirmed = await start(AHEAD);
  t.equal((await ready(confirmed, TOKEN)).erasure, undefined);
  t.ok(await eventually(async () => (await stored()) === 0));
  await confirmed.stop();
});
