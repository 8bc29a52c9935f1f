// Simulated users during a soak test. They create and revoke keys, sign in and out, read the dashboard's pages, watch
// the live view for a while, and save and delete presets. Operators read metrics, and drain and load models.
import { setTimeout as sleep } from 'node:timers/promises';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { SavedItem } from '../../src/shared/wire/playground.js';
import { PASSWORD, type DashboardClient } from '../support/dashboard-client.js';
import type { Owned } from '../support/owned-server.js';

const KEYS_MS = 200;
const PAGES_MS = 1_000;
const PRESETS_MS = 1_000;
const SESSIONS_MS = 20_000;
const MODELS_MS = 15_000;

export interface People extends Pick<Owned, 'server' | 'owner' | 'organization' | 'client'> {
  /** Models to drain and reload, which stops and starts their engines. */
  models: readonly string[];
  /** When to stop, as a value of performance.now(). */
  end: number;
}

export async function people({ server, owner, organization, client, models, end }: People): Promise<void> {
  const home = `/organizations/${organization.id}`;
  const until = async (ms: number, work: (turn: number) => Promise<void>): Promise<void> => {
    for (let turn = 0; performance.now() < end; turn++, await sleep(ms)) await work(turn);
  };
  await Promise.all([
    until(KEYS_MS, async () => {
      const { id, secret } = await owner.post<CreatedApiKey>(`${home}/api-keys`, { name: 'passing' });
      const models = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
      await models.text();
      if (models.status !== 200) throw new Error(`a new key got ${models.status}`);
      await owner.delete(`${home}/api-keys/${id}`);
    }),
    until(PAGES_MS, async (turn) => {
      for (const page of [
        '/usage',
        '/usage/latency',
        '/limits',
        '/requests',
        '/members',
        '/api-keys',
        '/models',
        '/audit-log',
      ])
        await owner.get(home + page);
      for (const page of [
        '/operator/models',
        '/operator/requests',
        '/operator/live/history',
        '/operator/disk',
        '/operator/tunables',
      ])
        await owner.get(page);
      for (const path of ['/metrics', '/props', '/slots'])
        await (await fetch(server.url + path, { headers: { authorization: `Bearer ${server.key}` } })).text();
      if (turn % 5 === 0) await watch(owner);
    }),
    until(PRESETS_MS, async () => {
      const { id } = await owner.post<SavedItem>(`${home}/playground/saved`, {
        kind: 'preset',
        name: 'passing',
        content: { settings: { a: 'x'.repeat(5_000) }, columns: [{ model: models[0], turns: [] }] },
      });
      await owner.get(`${home}/playground/saved`);
      await owner.delete(`${home}/playground/saved/${id}`);
    }),
    until(SESSIONS_MS, async () => {
      const other = client();
      await other.login('owner@example.com', PASSWORD);
      await other.get('/sessions');
      await other.logout();
    }),
    until(MODELS_MS, async () => {
      for (const model of models) await owner.post(`/operator/models/${model}/drain`);
      await sleep(500);
      for (const model of models) await owner.post(`/operator/models/${model}/load`);
    }),
  ]);
}

/** Watches the live view for two seconds. */
async function watch(owner: DashboardClient): Promise<void> {
  const closing = new AbortController();
  const response = await owner.fetch('/operator/live', { signal: closing.signal });
  setTimeout(() => closing.abort(), 2_000);
  await response.text().catch(() => undefined);
}
