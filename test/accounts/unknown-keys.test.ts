// Tests the limits on lookups of unknown API keys: 30 per minute for each address, and two concurrent lookups per
// thread. These limits never delay known keys.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { KeyCache } from '../../src/accounts/key-cache.js';
import type { KeyStore } from '../../src/accounts/key-store.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { MAX_UNKNOWN_KEYS, UNKNOWN_KEY_BYTES, UnknownKeys } from '../../src/accounts/unknown-keys.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { clockStart } from '../support/admission.js';
import { startDashboard } from '../support/dashboard-server.js';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { eventually } from '../e2e/monolith.js';
import { handshakeStatus } from '../support/web-socket.js';

t.setTimeout(300_000); // the machine may be busy

const MAX = MAX_UNKNOWN_KEYS;
const at = (remoteAddress: string): { remoteAddress: string } => ({ remoteAddress });

t.test('unknown keys are counted per address over all threads, and the count resets after a minute', (t) => {
  const buffer = new SharedArrayBuffer(UNKNOWN_KEY_BYTES);
  // The time is stored as 24 bits of seconds, which wrap around during this minute.
  let now = Number(clockStart(0n) / 1_000_000_000n) + (1 << 24) - 30;
  const [one, two] = [0, 1].map(() => new UnknownKeys(buffer, 'seed', () => now)) as [UnknownKeys, UnknownKeys];
  for (let n = 0; n < MAX; n++) t.equal((n % 2 === 0 ? one : two).take('192.0.2.1'), 0);
  now += 40;
  t.same([one.take('192.0.2.1'), two.wait('192.0.2.1'), two.take('192.0.2.2')], [20_000, 20_000, 0]);
  one.giveBack('192.0.2.1');
  t.same([two.take('192.0.2.1'), two.take('192.0.2.1')], [0, 20_000], 'refunded attempts are available again');
  now += 20;
  t.same([one.wait('192.0.2.1'), one.take('192.0.2.1')], [0, 0]);
  for (let n = 0; n < MAX; n++) one.take(`2001:db8::${n}`);
  t.ok(two.take('2001:db8::ffff') > 0, 'all IPv6 addresses of a /64 prefix count as one');
  t.equal(two.take('2001:db8:0:1::1'), 0);
  for (let n = 0; n < 200_000; n++) one.take(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);
  t.ok(one.take('2001:db8::1') > 0, 'many addresses with one key each do not evict the count');
  t.end();
});

t.test(
  'two unknown keys are looked up at a time, alternating between addresses, and known keys do not wait',
  async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'monolith-unknown-keys-'));
    const store = await openStore(path);
    const { apiKeys, keyStore, organizations } = new LmdbDirectory(store);
    t.teardown(async () => {
      await store.close();
      rmSync(path, { recursive: true, force: true });
    });
    const { id } = await organizations.ensureFirst();
    const { key, secret } = await apiKeys.create(id, { name: 'a' }, null);
    const gates: (() => void)[] = [];
    let gated = false;
    let looked = 0;
    const slow: Pick<KeyStore, 'find' | 'noteLastUsed'> = {
      async find(digest) {
        looked++;
        if (gated)
          await new Promise<void>((open) => {
            gates.push(open);
          });
        return keyStore.find(digest);
      },
      noteLastUsed: (times) => keyStore.noteLastUsed(times),
    };
    const turn = (): Promise<void> =>
      new Promise((done) => {
        setImmediate(done);
      });
    const buffer = new SharedArrayBuffer(UNKNOWN_KEY_BYTES);
    const cache = new KeyCache(slow, { unknown: new UnknownKeys(buffer, 'seed') });
    await cache.authenticate(secret, at('192.0.2.1'));
    gated = true;
    looked = 0;
    const codes: string[] = [];
    const ask = (text: string, from: string): Promise<unknown> =>
      (async () => cache.authenticate(text, at(from)))().then(
        () => codes.push('known'),
        (error: { code: string }) => codes.push(`${from} ${error.code}`),
      );
    const asked: Promise<unknown>[] = [];
    for (let n = 0; n < 2 * MAX; n++) asked.push(ask(`a${n}`, '192.0.2.1'));
    asked.push(ask('b', '192.0.2.2'));
    await turn();
    t.equal(looked, 2);
    t.notOk(cache.authenticate(secret, at('192.0.2.1')) instanceof Promise, 'a cached key is accepted immediately');
    cache.forget();
    const known = cache.authenticate(secret, at('192.0.2.1'));
    await turn();
    t.equal(looked, 3, 'a key evicted from the cache is looked up immediately');
    gates.pop()?.();
    t.match(await known, { keyId: key.id });
    gates.shift()?.();
    await turn();
    gates.pop()?.();
    gates.pop()?.();
    await turn();
    while (codes.length < asked.length) {
      for (const open of gates.splice(0)) open();
      await turn();
    }
    t.ok(codes.indexOf('192.0.2.2 invalid_api_key') < 6, 'one of the first lookups is for the other address');
    t.equal(codes.filter((code) => code === '192.0.2.1 invalid_api_key').length, MAX);
    t.equal(codes.filter((code) => code === '192.0.2.1 too_many_attempts').length, MAX);
    t.equal(looked, 1 + MAX + 1, 'refused keys are not looked up');
    gated = false;
    t.match(
      await cache.authenticate(secret, at('192.0.2.1')),
      { keyId: key.id },
      'known keys from this address still work',
    );
    const { secret: unseen } = await apiKeys.create(id, { name: 'b' }, null);
    await t.rejects(
      async () => cache.authenticate(unseen, at('192.0.2.1')),
      { code: 'too_many_attempts' },
      'a key not cached in this thread is refused until the minute has passed',
    );
    t.match(await cache.authenticate(unseen, at('192.0.2.3')), { organizationId: id });
  },
);

t.test('concurrent requests with the same new key share one lookup', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-unknown-keys-'));
  const store = await openStore(path);
  const { apiKeys, keyStore, organizations } = new LmdbDirectory(store);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const { secret } = await apiKeys.create((await organizations.ensureFirst()).id, { name: 'a' }, null);
  let looked = 0;
  const cache = new KeyCache(
    {
      find: async (digest) => {
        looked++;
        return keyStore.find(digest);
      },
      noteLastUsed: (times) => keyStore.noteLastUsed(times),
    },
    { unknown: new UnknownKeys(new SharedArrayBuffer(UNKNOWN_KEY_BYTES), 'seed') },
  );
  await Promise.all(Array.from({ length: 100 }, () => cache.authenticate(secret, at('192.0.2.1'))));
  t.equal(looked, 1);
});

t.test(
  'over HTTP, unknown keys get 401, then 429 with Retry-After, per client address behind a trusted proxy',
  async (t) => {
    const dashboard = await startDashboard({ http: { trust_proxy: true } });
    t.teardown(() => dashboard.close());
    const key = dashboard.server.createdKey as string;
    const ask = (secret: string, client: string): Promise<Response> =>
      fetch(`${dashboard.url}/v1/models`, {
        headers: { authorization: `Bearer ${secret}`, 'x-forwarded-for': `203.0.113.9, ${client}` },
      });
    t.equal((await ask(key, '198.51.100.1')).status, 200);
    for (let n = 0; n < MAX; n++) t.equal((await ask(`sk-${n}`, '198.51.100.1')).status, 401);
    const refused = await ask('sk-another', '198.51.100.1');
    t.equal(refused.status, 429);
    t.match(await refused.json(), {
      error: {
        code: 'too_many_attempts',
        type: 'rate_limit_error',
        message: /Too many unknown API keys from this address\. Try again in \d+ seconds\./,
      },
    });
    t.ok(Number(refused.headers.get('retry-after')) > 0 && Number(refused.headers.get('retry-after')) <= 60);
    t.equal((await ask('sk-0', '198.51.100.1')).status, 429, 'unknown keys are not cached');
    t.equal((await ask(key, '198.51.100.1')).status, 200, 'a known key is accepted');
    t.equal(
      (await ask('sk-another', '198.51.100.2')).status,
      401,
      'another client of the same proxy has its own limit',
    );
    t.equal(
      await handshakeStatus(dashboard.server.port, 'sk-another'),
      401,
      'a WebSocket handshake counts for its own client address',
    );
    t.equal(
      (
        await fetch(`${dashboard.url}/readyz`, {
          headers: { authorization: 'Bearer sk-another', 'x-forwarded-for': '198.51.100.1' },
        })
      ).status,
      200,
      'health checks are not limited',
    );
  },
);

t.test('a key is accepted only from its allowed addresses, as reported by a trusted proxy', async (t) => {
  const dashboard = await startDashboard({ http: { trust_proxy: true } });
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const { organization } = await owner.signUp({
    code: new URL(dashboard.server.setupUrl as string).searchParams.get('code') as string,
  });
  const path = `/organizations/${organization.id}/api-keys`;
  const wrong = await owner.fetch(path, {
    method: 'POST',
    body: { name: 'k', allowed_addresses: ['10.0.0.0/8', '10.0.0'] },
  });
  t.match(
    [wrong.status, await wrong.json()],
    [422, { error: { code: 'invalid_value', param: 'allowed_addresses[1]' } }],
  );
  const made = await owner.post<CreatedApiKey>(path, {
    name: 'k',
    allowed_addresses: ['198.51.100.0/24', '2001:db8::/32'],
  });
  const { id, secret } = made;
  t.same(made.allowed_addresses, ['198.51.100.0/24', '2001:db8::/32']);
  const ask = (client: string, header = `Bearer ${secret}`): Promise<Response> =>
    fetch(`${dashboard.url}/v1/models`, { headers: { authorization: header, 'x-forwarded-for': client } });
  for (let n = 0; n < 2; n++) {
    t.equal((await ask('198.51.100.7')).status, 200);
    t.equal((await ask('10.0.0.1, 2001:db8::7')).status, 200);
    const refused = await ask('198.51.100.7, 198.51.101.7');
    t.match(
      [refused.status, await refused.json()],
      [403, { error: { code: 'address_not_allowed', message: /is not allowed from the address 198\.51\.101\.7\./ } }],
      n === 0 ? 'before the key is cached' : 'when it is cached',
    );
  }
  t.equal(await handshakeStatus(dashboard.server.port, secret), 403, 'the same applies to a WebSocket handshake');
  const changed = await owner.patch<CreatedApiKey>(`${path}/${id}`, { allowed_addresses: null });
  t.same(changed.allowed_addresses, []);
  t.ok(await eventually(async () => (await ask('192.0.2.1')).status === 200));
});
