// node scripts/upgrade-data.mjs CHECKOUT: runs the release in CHECKOUT, which must be built, to write a data directory
// and a PostgreSQL database, and saves both in test/data/upgrade. test/e2e/upgrade.test.ts opens them with this
// version. Needs root, PostgreSQL and Redis.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { gzipSync } from 'node:zlib';
import { root, run, SetupError } from './setup.mjs';

const kKey = 'sk-set-by-the-operator';
const kEmail = 'owner@example.com';
const kPassword = 'a long enough password';

/** Starts the checkout's server. The settings have the names that they had in that release. */
async function start(checkout, env) {
  const child = spawn(process.execPath, [join(checkout, 'dist', 'main.js'), 'serve', '--log', 'json'], {
    env: { ...process.env, MONOLITH_PORT: '0', MONOLITH_API_KEY: kKey, MONOLITH_ACCOUNTS_SIGNUP: 'open', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const line = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line').then(([first]) => first),
    once(child, 'exit').then(([code]) => {
      throw new SetupError(`the server exited with code ${code} before it was ready`);
    }),
  ]);
  const stop = async () => {
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  return { url: JSON.parse(line).url, stop };
}

/** Uses the server as an operator, a member and a client. Returns the values that the upgrade test compares. */
async function use(url) {
  let cookie = '';
  let token = '';
  const dashboard = async (method, path, body) => {
    const response = await fetch(`${url}/dashboard/api${path}`, {
      method,
      headers: { origin: url, cookie, 'x-csrf-token': token, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    for (const set of response.headers.getSetCookie()) cookie = /^sid=[^;]*/.exec(set)?.[0] ?? cookie;
    const answer = await response.json();
    if (!response.ok) throw new SetupError(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  const api = async (key, path, body) => {
    const response = await fetch(`${url}/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    if (!response.ok) throw new SetupError(`${path}: ${JSON.stringify(answer)}`);
    return answer;
  };

  const { organization } = await dashboard('POST', '/signup', {
    email: kEmail,
    password: kPassword,
    name: 'Owner',
    organization_name: 'Northwind',
  });
  token = (await dashboard('GET', '/me')).csrf_token;
  const own = `/organizations/${organization.id}`;
  const key = await dashboard('POST', `${own}/api-keys`, { name: 'application' });
  await dashboard('PUT', `${own}/budget`, { amount: 12.5 });
  const responses = [];
  for (const input of ['Hello!', 'What is the capital of France?']) {
    const answer = await api(key.secret, '/responses', {
      model: 'tycho-1.0',
      input,
      temperature: 0,
      max_output_tokens: 24,
      previous_response_id: responses.at(-1)?.id,
      metadata: { number: String(responses.length) },
    });
    responses.push({ id: answer.id, input, output: answer.output });
  }
  return { organization, key: key.secret, responses, email: kEmail, password: kPassword };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

/** Starts a PostgreSQL server in a new directory. */
async function startPostgres(folder) {
  const versions = readdirSync('/usr/lib/postgresql').sort((a, b) => Number(b) - Number(a));
  const bin = join('/usr/lib/postgresql', versions[0], 'bin');
  const asPostgres = (program, args, options = {}) =>
    execFileSync('runuser', ['-u', 'postgres', '--', join(bin, program), ...args], { cwd: '/', ...options });
  execFileSync('chown', ['postgres', folder]);
  const data = join(folder, 'data');
  const port = await freePort();
  const log = { stdio: 'ignore' };
  asPostgres('initdb', ['-D', data, '-A', 'trust', '-E', 'UTF8', '--no-locale'], log);
  asPostgres('pg_ctl', ['-D', data, '-w', '-l', join(folder, 'log'), '-o', `-p ${port} -k ${folder}`, 'start'], log);
  asPostgres('createdb', ['-h', '127.0.0.1', '-p', String(port), 'monolith']);
  return {
    url: `postgres://postgres@127.0.0.1:${port}/monolith`,
    dump: () =>
      asPostgres('pg_dump', ['-h', '127.0.0.1', '-p', String(port), '--no-owner', '--inserts', 'monolith'], {
        maxBuffer: 2 ** 28,
      }),
    stop: () => asPostgres('pg_ctl', ['-D', data, '-m', 'fast', 'stop'], log),
  };
}

/** Starts a Redis server that stores nothing. */
async function startRedis(folder) {
  const port = await freePort();
  const child = spawn('redis-server', ['--port', String(port), '--save', '', '--dir', folder], { stdio: 'ignore' });
  return { url: `redis://127.0.0.1:${port}`, stop: () => child.kill() };
}

await run(async () => {
  const [checkout] = process.argv.slice(2);
  if (checkout === undefined) throw new SetupError('usage: node scripts/upgrade-data.mjs CHECKOUT');
  const from = resolve(checkout);
  const { version } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  const folder = mkdtempSync(join(tmpdir(), 'upgrade-'));
  const into = join(root, 'test', 'data', 'upgrade');
  chmodSync(folder, 0o755);
  mkdirSync(into, { recursive: true });
  const data = join(folder, 'lmdb');
  let server = await start(from, { MONOLITH_DATA_DIR: data });
  const lmdb = await use(server.url);
  await server.stop();
  execFileSync('tar', [
    '--sort=name',
    '--owner=0',
    '--group=0',
    '-czf',
    join(into, `${version}.tar.gz`),
    '-C',
    data,
    '.',
  ]);

  const place = join(folder, 'postgres');
  mkdirSync(place);
  const postgres = await startPostgres(place);
  const redis = await startRedis(place);
  server = await start(from, {
    MONOLITH_DATA_DIR: join(folder, 'other'),
    MONOLITH_STATE_URL: postgres.url,
    MONOLITH_COUNTERS_URL: redis.url,
  });
  const shared = await use(server.url);
  await server.stop();
  writeFileSync(join(into, `${version}.sql.gz`), gzipSync(postgres.dump(), { level: 9 }));
  postgres.stop();
  redis.stop();
  const facts = { writtenAt: Math.floor(Date.now() / 1000), operatorKey: kKey, lmdb, postgres: shared };
  writeFileSync(join(into, `${version}.json`), `${JSON.stringify(facts, null, 1)}\n`);
  rmSync(folder, { recursive: true, force: true });
});
