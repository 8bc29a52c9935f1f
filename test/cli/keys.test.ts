// Runs `monolith keys` as an operator would: on a real data directory.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { makeDatabase, openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { commandHost } from '../support/command-host.js';

t.setTimeout(300_000); // the machine may be busy

const dataDir = mkdtempSync(join(tmpdir(), 'monolith-keys-'));
t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));

const monolith = commandHost(t, { HOME: join(dataDir, 'home'), MONOLITH_DATA_DIR: dataDir });

t.test('creates no database', async (t) => {
  for (const args of [['list'], ['create'], ['rotate', 'ci'], ['revoke', 'ci']])
    t.match(await monolith(['keys', ...args]), {
      status: 1,
      out: '',
      err: `monolith: No database found in ${dataDir}. Check --data-dir; the first start of the server creates the database.\n`,
    });
  t.same(readdirSync(dataDir), []);
});

t.test('creates, lists and revokes keys', async (t) => {
  makeDatabase(dataDir);
  const created = await monolith(['keys', 'create', '--name', 'ci', '--models', 'tycho-1.0', '--expires', '90d']);
  t.equal(created.status, 0);
  t.match(created.out, /^sk-[0-9A-Za-z]{48}\n$/);
  const [key] = JSON.parse((await monolith(['keys', 'list', '--json'])).out) as Record<string, unknown>[];
  t.match(key, {
    name: 'ci',
    models: ['tycho-1.0'],
    status: 'active',
    last4: created.out.trim().slice(-4),
    last_used_at: null,
  });
  t.notMatch((await monolith(['keys', 'list'])).out, created.out.trim().slice(12));
  t.equal((await monolith(['keys', 'revoke', created.out.slice(0, 11)])).status, 0);
  t.match((await monolith(['keys', 'list'])).out, /revoked/);
  t.match(await monolith(['keys', 'revoke', 'nothing']), { status: 2, err: /there is no key "nothing"/ });
  t.match(await monolith(['keys', 'create', '--expires', '2020-01-01']), {
    status: 2,
    out: '',
    err: 'monolith: keys: --expires 2020-01-01 is in the past\n',
  });
  t.equal(created.err, '');
  for (const [flags, err] of [
    [
      ['--models', 'tycho-1.0,thyco-1.0'],
      /^monolith: keys: no model "thyco-1\.0" is known; known models: .*tycho-1\.0.*\. Did you mean tycho-1\.0\? The key was created anyway\.\n$/,
    ],
    [['--limits', '{"nope":{"rpm":1}}'], /^monolith: keys: no model "nope" is known; .*\n$/],
    [
      ['--models', 'there', '--limits', '{"*":{"rpm":1},"there":{"rpm":1}}', '--model', 'there=http://127.0.0.1:1/v1'],
      /^$/,
    ],
  ] as const)
    t.match(await monolith(['keys', 'create', ...flags]), { status: 0, out: /^sk-\S+\n$/, err });
  t.match(await monolith(['keys', 'create', '--scopes', 'all']), { status: 2, err: /"all" is not one of inference/ });
});

t.test('sets limits and organizations, and rotates keys', async (t) => {
  const revoked = (
    JSON.parse((await monolith(['keys', 'list', '--json'])).out) as { id: string; status: string }[]
  ).find(({ status }) => status === 'revoked')?.id as string;
  const limited = await monolith([
    'keys',
    'create',
    '--name',
    'limited',
    '--limits',
    '{"*":{"rpm":10}}',
    '--organization',
    'Default',
    '--json',
  ]);
  t.match(JSON.parse(limited.out), { name: 'limited', limits: { '*': { rpm: 10 } }, secret: /^sk-/ });
  const { id, secret } = JSON.parse(limited.out) as { id: string; secret: string };
  const rotated = await monolith(['keys', 'rotate', id, '--overlap', '1h']);
  t.match(rotated.out, /^sk-[0-9A-Za-z]{48}\n$/);
  t.not(rotated.out.trim(), secret);
  const all = JSON.parse((await monolith(['keys', 'list', '--json', '--organization', 'Default'])).out) as Record<
    string,
    unknown
  >[];
  t.match(
    all.find((one) => one['rotated_from'] === id),
    { name: 'limited', limits: { '*': { rpm: 10 } }, status: 'active' },
  );
  t.match(
    all.find((one) => one['id'] === id),
    { status: 'active', revoked_at: /^\d{4}-/ },
  );
  // Given a name, `rotate` selects the successor, not the key that is about to be revoked. `revoke` requires an ID
  // while several keys with this name are valid.
  const again = await monolith(['keys', 'rotate', 'limited']);
  t.match(again, { status: 0, out: /^sk-/ });
  const ambiguous = await monolith(['keys', 'revoke', 'limited']);
  t.match(ambiguous, { status: 2, out: '', err: /^monolith: keys: 3 keys match; use the ID: key_\w+ \(limited, / });
  t.match(ambiguous.err, id);
  // The full key works too, for example after a leak. An unknown key is not repeated in the error.
  t.match(await monolith(['keys', 'revoke', again.out.trim()]), { status: 0, out: /^revoked key_\w+ \(limited\)\n$/ });
  const unknown = await monolith(['keys', 'revoke', `sk-${'x'.repeat(48)}`]);
  t.match(unknown, { status: 2, err: 'monolith: keys: there is no key "sk-xxxxxxxx…"\n' });
  t.match(await monolith(['keys', 'create', '--name', 'bot']), { status: 0 });
  t.match(await monolith(['keys', 'revoke', 'bot', '--organization', 'Default']), { status: 0, out: /\(bot\)/ });
  t.match(await monolith(['keys', 'rotate', 'bot']), { status: 2, err: /has been revoked/ });
  t.match(await monolith(['keys', 'create', '--name', 'bot']), { status: 0 });
  t.match(await monolith(['keys', 'revoke', 'bot']), { status: 0, out: /\(bot\)/ }, 'a revoked key does not count');
  t.match(await monolith(['keys', 'rotate', revoked]), { status: 2, err: /has been revoked/ });
  t.match(await monolith(['keys', 'rotate', id, '--overlap', '31d']), { status: 2, err: /--overlap takes 0 to 30d/ });
  t.match(await monolith(['keys', 'create', '--limits', '{"*":{"rpm":0}}']), { status: 2, err: /--limits/ });
  t.match(await monolith(['keys', 'create', '--limits', '{"*":{"rpn":10}}']), {
    status: 2,
    out: '',
    err: 'monolith: keys: --limits: *.rpn: is not a limit; the limits are rpm, tpm, concurrency\n',
  });
  t.match(await monolith(['keys', 'list', '--organization', 'Nobody']), {
    status: 2,
    err: /there is no organization "Nobody"/,
  });
});

t.test('lists the organization of each key if there are several', async (t) => {
  t.notMatch(
    (await monolith(['keys', 'list'])).out,
    'ORGANIZATION',
    'with only one organization, there is no such column',
  );
  const store = await openStore(dataDir);
  const { signUps } = new LmdbDirectory(store);
  for (const name of ['first', 'Harbour']) {
    // The first user to sign up owns the existing organization.
    await signUps.signUp(
      { open: true, local: true },
      { email: `${name}@example.com`, name, organizationName: name, invite: null, code: null },
      'hash',
      { ip: '192.0.2.1', userAgent: 'a test' },
    );
  }
  await store.close();
  t.equal((await monolith(['keys', 'create', '--name', 'theirs', '--organization', 'Harbour'])).status, 0);
  t.match(
    (await monolith(['keys', 'list'])).out,
    /^ID +KEY +ORGANIZATION +NAME .*\n(.*\n)*key_\S+ +sk-\S+ +Harbour +theirs +active /,
  );
  t.notMatch((await monolith(['keys', 'list', '--organization', 'Harbour'])).out, 'ORGANIZATION');
});

t.test('sets allowed addresses, and changes keys', async (t) => {
  const addresses = ['--allow-address', '203.0.113.7, 2001:db8::/32'];
  const made = JSON.parse((await monolith(['keys', 'create', '--name', 'office', ...addresses, '--json'])).out) as {
    id: string;
  };
  t.match(made, { allowed_addresses: ['203.0.113.7', '2001:db8::/32'] });
  const change = async (...flags: string[]): Promise<unknown> =>
    JSON.parse((await monolith(['keys', 'change', 'office', ...flags, '--json'])).out) as unknown;
  t.match(await change('--allow-address', '10.0.0.0/8'), { id: made.id, allowed_addresses: ['10.0.0.0/8'] });
  t.match(await change('--expires', '1h', '--limits', '{"*":{"rpm":1}}', '--scopes', 'inference'), {
    allowed_addresses: ['10.0.0.0/8'],
    expires_at: /^2/,
    limits: { '*': { rpm: 1 } },
    scopes: ['inference'],
  });
  t.match(await change('--expires', 'never', '--limits', 'none', '--allow-address', 'all'), {
    allowed_addresses: [],
    expires_at: null,
    limits: null,
    scopes: ['inference'],
  });
  t.match(await monolith(['keys', 'change', made.id, '--name', 'desk']), {
    status: 0,
    out: `changed ${made.id} (desk)\n`,
  });
  t.match(await monolith(['keys', 'change', 'desk']), { status: 2, err: /change needs --name, --models/ });
  t.match(await monolith(['keys', 'create', '--allow-address', '10.0.0.0/8,office']), {
    status: 2,
    out: '',
    err: 'monolith: keys: --allow-address: "office" is not an IP address or a CIDR range, such as 203.0.113.7 or 2001:db8::/32\n',
  });
  await monolith(['keys', 'revoke', made.id]);
  t.match(await monolith(['keys', 'change', made.id, '--name', 'x']), { status: 2, err: /has been revoked/ });
});

t.test('creates keys for a service account', async (t) => {
  const store = await openStore(dataDir);
  const directory = new LmdbDirectory(store);
  const { user, organization } = await directory.signUps.signUp(
    { open: true, local: true },
    { email: 'a@example.com', name: 'a', organizationName: null, invite: null, code: null },
    'hash',
    { ip: '192.0.2.1', userAgent: 'a test' },
  );
  const actor = { type: 'user', id: user.id, email: user.email, ip: null } as const;
  const fields = { name: 'build', role: 'developer' } as const;
  const { id } = await directory.serviceAccounts.create(organization.id, fields, user.id, actor);
  await store.close();
  const at = ['--organization', organization.id];
  for (const account of ['build', id])
    t.match(JSON.parse((await monolith(['keys', 'create', '--service-account', account, ...at, '--json'])).out), {
      created_by: id,
      organization_id: organization.id,
    });
  t.match(await monolith(['keys', 'create', '--service-account', 'nobody']), {
    status: 2,
    err: /the organization "first" has no service account "nobody"/,
  });
  t.match(await monolith(['keys', 'list', '--service-account', 'build']), { status: 2, err: /only valid with create/ });
});

t.test('lists organizations', async (t) => {
  t.match(await monolith(['organizations', 'list']), {
    status: 0,
    out: /^ID +NAME +STATUS.*\norg_\S+ +first +active +\S+ +all\n/,
  });
  t.match(JSON.parse((await monolith(['organizations', 'list', '--json'])).out), [
    { name: 'first', dashboard_addresses: [] },
    { name: 'Harbour' },
    { name: "a's organization" },
  ]);
  t.match(await monolith(['organizations']), { status: 2, out: /^Usage: monolith organizations list/ });
  t.match(await monolith(['organizations', 'clear-addresses']), { status: 2, err: /needs an organization/ });
  t.match(await monolith(['organizations', 'drop']), {
    status: 2,
    err: /expected list or clear-addresses, not "drop"/,
  });
});
