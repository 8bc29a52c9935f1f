// Opens what earlier releases wrote (test/data/upgrade, made by scripts/upgrade-data.mjs): a data directory, and a
// PostgreSQL database. Keys, passwords and stored responses must stay valid.
import t, { type Test } from 'tap';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { dashboardClient } from '../support/dashboard-client.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { startScripted } from '../support/script-model.js';
import { clockAhead } from '../support/shifted-clock.js';
import { root, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

interface Written {
  organization: { id: string; name: string };
  key: string;
  responses: { id: string; input: string; output: { id: string }[] }[];
  email: string;
  password: string;
}

interface Facts {
  /** Unix time in seconds. */
  writtenAt: number;
  /** A key that was configured as `api_key`, and is therefore not stored. */
  operatorKey: string;
  lmdb: Written;
  postgres: Written;
}

const folder = join(root, 'test', 'data', 'upgrade');
const releases = readdirSync(folder).flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : []));
const factsOf = (release: string): Facts => JSON.parse(readFileSync(join(folder, `${release}.json`), 'utf8')) as Facts;

async function isServed(t: Test, server: Monolith, written: Written): Promise<void> {
  const ask = async (key: string, path: string, body?: object): Promise<Record<string, unknown>> => {
    const response = await fetch(`${server.url}/v1${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = (await response.json()) as Record<string, unknown>;
    t.equal(response.status, 200, `${path}: ${JSON.stringify(answer).slice(0, 300)}`);
    return answer;
  };
  for (const { id, input, output } of written.responses) {
    t.match(await ask(written.key, `/responses/${id}`), { id, output });
    const { data } = (await ask(written.key, `/responses/${id}/input_items?limit=1`)) as { data: unknown[] };
    t.match(data, [{ role: 'user', content: [{ type: 'input_text', text: input }] }]);
  }
  const last = written.responses.at(-1);
  const body = { model: 'hal-1.0', input: 'A: more' };
  const alone = await ask(written.key, '/responses', body);
  const next = await ask(written.key, '/responses', { ...body, previous_response_id: last?.id });
  const tokens = ({ usage }: Record<string, unknown>): number => (usage as { input_tokens: number }).input_tokens;
  t.ok(tokens(next) > tokens(alone), 'the conversation can be continued');

  t.match(await ask(written.key, '/files'), { data: [] }, 'a key with all earlier scopes has those of files');

  const client = dashboardClient(server.url);
  await client.login(written.email, written.password);
  const own = `/organizations/${written.organization.id}`;
  t.match(await client.get(own), { name: written.organization.name });
  t.match(await client.get(`${own}/budget`), { amount: 12.5, stops: false });
  const { data: keys } = await client.get<{ data: { name: string }[] }>(`${own}/api-keys`);
  t.ok(
    keys.some(({ name }) => name === 'application'),
    'the key is listed',
  );
  const { data: requests } = await client.get<{ data: { model: string; output_tokens: number }[] }>(`${own}/requests`);
  const old = requests.filter(({ model, output_tokens: tokens }) => model === 'tycho-1.0' && tokens > 0);
  t.equal(old.length, written.responses.length, 'the request log is kept');
}

for (const release of releases) {
  const { writtenAt, operatorKey, lmdb, postgres: shared } = factsOf(release);
  const sinceMs = Math.floor(Date.now() - writtenAt * 1000);

  t.test(`a data directory of ${release}`, async (t) => {
    const data = mkdtempSync(join(tmpdir(), 'monolith-upgrade-'));
    t.teardown(() => rmSync(data, { recursive: true, force: true }));
    const { status } = spawnSync('tar', ['-xzf', join(folder, `${release}.tar.gz`), '-C', data]);
    t.equal(status, 0);
    // Responses expire after 30 days, so the server's clock is set to the time at which they were written.
    const env = { MONOLITH_DATA_DIR: data, MONOLITH_API_KEY: operatorKey, ...clockAhead(60_000 - sinceMs) };
    for (const start of ['first', 'second']) {
      const server = await startScripted({ env });
      t.comment(`${start} start`);
      await isServed(t, server, lmdb);
      await server.stop();
    }
  });

  t.test(`a database of ${release}`, { skip: withoutPostgres || withoutRedis }, async (t) => {
    const postgres = await startPostgres();
    t.teardown(() => postgres.close());
    const redis = await startRedis();
    t.teardown(() => redis.stop());
    const url = await postgres.create();
    const dump = gunzipSync(readFileSync(join(folder, `${release}.sql.gz`))).toString();
    await postgres.ask(url, dump.replace(/^\\.*$/gm, '')); // psql's own commands
    // Moves the stored times, because PostgreSQL's clock determines what has expired.
    const sinceS = Math.floor(sinceMs / 1000);
    await postgres.ask(
      url,
      `UPDATE public.responses SET created_at = created_at + ${sinceS}, made_at = made_at + ${sinceS}`,
    );
    const server = await startScripted({
      env: { MONOLITH_DATABASE_URL: url, MONOLITH_REDIS_URL: redis.url, MONOLITH_API_KEY: operatorKey },
    });
    t.teardown(() => server.stop());
    await isServed(t, server, shared);
  });
}
