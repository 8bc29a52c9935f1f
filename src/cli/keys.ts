// monolith keys: works on the data folder, with or without a server running on it. A running server sees
// the change within a second.

import { Accounts } from '../accounts/accounts.js';
import { ALL_SCOPES, keyObject, keyStatus } from '../accounts/keys.js';
import { loadConfig } from '../config.js';
import type { Scope } from '../http/exchange.js';
import { openStore } from '../storage/lmdb-store.js';
import { askedForHelp, noWords, ownFlags, table, UsageError } from './output.js';

const HELP = `
Usage: monolith keys create [--name NAME] [--models A,B] [--scopes A,B] [--expires DATE]
       monolith keys list [--json]
       monolith keys revoke KEY        KEY: its id, its prefix sk-…, or its last four characters

create prints the key once; only a hash of it is kept. --expires takes a date or 90d, 12h.
Scopes: ${ALL_SCOPES.join(', ')}. --data-dir names the data folder.
`;

const FLAGS = { '--name': true, '--models': true, '--scopes': true, '--expires': true, '--json': false };

export async function keys(argv: string[]): Promise<number> {
  if (argv.length === 0 || askedForHelp(argv, HELP)) {
    if (argv.length === 0) process.stdout.write(`${HELP.trim()}\n`);
    return argv.length === 0 ? 2 : 0;
  }
  const { config, rest } = loadConfig({ argv }, FLAGS);
  const { values, words } = ownFlags(rest, FLAGS);
  const [action, ...others] = words;
  const store = await openStore(config.data_dir);
  const accounts = new Accounts(store);
  try {
    switch (action) {
      case 'create':
        noWords(others);
        return await create(accounts, values);
      case 'list':
        noWords(others);
        return list(accounts, values.has('--json'));
      case 'revoke':
        return await revoke(accounts, others);
      default:
        throw new UsageError(`keys: expected create, list or revoke${action === undefined ? '' : `, not "${action}"`}`);
    }
  } finally {
    await accounts.close();
    await store.close();
  }
}

async function create(accounts: Accounts, values: ReadonlyMap<string, string>): Promise<number> {
  // On a fresh folder this makes the organization; the key created here is then its first.
  await accounts.ensureOrganization();
  const scopes = values.get('--scopes')?.split(',') ?? [...ALL_SCOPES];
  for (const scope of scopes) if (!(ALL_SCOPES as readonly string[]).includes(scope)) throw new UsageError(`keys: "${scope}" is none of ${ALL_SCOPES.join(', ')}`);
  const { key, secret } = await accounts.createKey({
    name: values.get('--name') ?? 'unnamed',
    models: values.get('--models')?.split(',') ?? ['*'],
    scopes: scopes as Scope[],
    expiresAt: expiry(values.get('--expires')),
  });
  if (values.has('--json')) process.stdout.write(`${JSON.stringify({ ...keyObject(key, new Date()), secret })}\n`);
  else process.stdout.write(`${secret}\n`);
  return 0;
}

function expiry(text: string | undefined): Date | null {
  if (text === undefined) return null;
  const [, count, unit] = /^(\d+)([dh])$/.exec(text) ?? [];
  const date = count === undefined ? new Date(text) : new Date(Date.now() + Number(count) * (unit === 'd' ? 86_400_000 : 3_600_000));
  if (Number.isNaN(date.getTime())) throw new UsageError(`keys: --expires takes a date, 90d or 12h, not "${text}"`);
  if (date.getTime() <= Date.now()) throw new UsageError(`keys: --expires ${text} is past; the key would never be valid`);
  return date;
}

function list(accounts: Accounts, json: boolean): number {
  const now = new Date();
  const all = accounts.listKeys();
  if (json) {
    process.stdout.write(`${JSON.stringify(all.map((key) => keyObject(key, now)))}\n`);
    return 0;
  }
  const day = (text: string | null): string => text?.slice(0, 16).replace('T', ' ') ?? '-';
  process.stdout.write(table([
    ['ID', 'KEY', 'NAME', 'STATUS', 'CREATED', 'LAST USED', 'EXPIRES'],
    ...all.map((key) => [
      key.id, `${key.publicId === null ? '' : `sk-${key.publicId}-`}…${key.last4}`, key.name, keyStatus(key, now),
      day(key.createdAt), day(key.lastUsedAt), day(key.expiresAt),
    ]),
  ]));
  return 0;
}

async function revoke(accounts: Accounts, words: readonly string[]): Promise<number> {
  const [reference, ...others] = words;
  noWords(others);
  if (reference === undefined) throw new UsageError('keys: revoke needs a key');
  const key = accounts.findKey(reference);
  if (key === null) throw new UsageError(`keys: there is no key "${reference}"`);
  if (key === 'several') throw new UsageError(`keys: several keys end in "${reference}"; use the id`);
  await accounts.revokeKey(key.id);
  process.stdout.write(`revoked ${key.id}\n`);
  return 0;
}
