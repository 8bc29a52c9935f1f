// monolith keys: changes the data directory or the shared database, even while a server is using it. A running server
// picks up a change within a second.

import type { Accounts } from '../accounts/accounts.js';
import { DEFAULT_OVERLAP_S, given, MAX_OVERLAP_S } from '../accounts/api-keys.js';
import type { CreatedKey, KeyChange } from '../accounts/api-keys.js';
import type { Actor } from '../accounts/audit.js';
import { ALL_SCOPES, isListed, keyObject, keyStatus } from '../accounts/keys.js';
import type { KeyRecord, Organization } from '../accounts/keys.js';
import { didYouMean } from '../config/did-you-mean.js';
import { commandConfig } from './command-config.js';
import type { ServiceAccounts } from '../accounts/service-accounts.js';
import { addressesField, limitsField } from '../dashboard/api/key-fields.js';
import { ApiError } from '../shared/errors.js';
import { printable } from '../hub/hub-error.js';
import type { Scope } from '../shared/identity.js';
import { MAX_ADDRESSES } from '../shared/address-list.js';
import { withStores } from '../server/command-stores.js';
import type { CommandStores } from '../server/command-stores.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp, table } from './output.js';
import { timeSpan } from './time-span.js';

const HELP = `
Usage: monolith keys create [--name NAME] [--service-account NAME] [PERMISSIONS]
       monolith keys change KEY [--name NAME] [PERMISSIONS]
       monolith keys list [--json] [--all]
       monolith keys revoke KEY
       monolith keys rotate KEY [--overlap TIME]

Creates, changes, lists, revokes and rotates API keys. KEY is the name of a key, its ID, the key itself, or its prefix sk-... or
last four characters as shown by list. If several keys match, nothing changes, and the error lists their IDs.

create and rotate print the new key once; the database contains only a hash. rotate creates a successor with the same
permissions. The old key stays valid for --overlap (default 24h, 0 to 30d) and is then revoked.

PERMISSIONS:
  --expires DATE        a date, a duration such as 90d or 12h, or never
  --models A,B          models that the key may use, * for all; an unknown name causes a warning
  --scopes A,B          ${ALL_SCOPES.join(', ')}
  --limits JSON         limits per model, in addition to the organization's limits:
                        {"*":{"rpm":10},"hal-1.0":{"tpm":5000}}; none removes them
  --allow-address A,B   IP addresses and CIDR ranges from which the key may be used, or all

Other flags:
  --service-account SA  ID or name of the service account that owns the new key
  --all                 also list revoked and expired temporary keys (chat and bench create them)
  --organization ORG    ID or name of the organization; default: the first organization for create, all for list
  --data-dir PATH       the data directory
  --database URL        the database that several servers share

Examples:
  monolith keys create --name laptop
  monolith keys create --name ci --expires 90d --models my-model --limits '{"*":{"rpm":60}}'
  monolith keys change ci --allow-address 203.0.113.7,10.0.0.0/8
  monolith keys list
`;

export const FLAGS: OwnFlags = {
  '--name': 'value',
  '--models': 'value',
  '--scopes': 'value',
  '--expires': 'value',
  '--limits': 'value',
  '--allow-address': 'value',
  '--service-account': 'value',
  '--organization': 'value',
  '--overlap': 'value',
  '--json': 'switch',
  '--all': 'switch',
};

const ACTIONS: readonly string[] = ['create', 'change', 'list', 'revoke', 'rotate'];
const ACTOR: Actor = { type: 'command_line', id: null, email: null, ip: null };

export async function keys(argv: string[]): Promise<number> {
  if (argv.length === 0 || askedForHelp(argv, HELP)) {
    if (argv.length === 0) process.stdout.write(`${HELP.trim()}\n`);
    return argv.length === 0 ? 2 : 0;
  }
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [action, ...others] = words;
  if (action === undefined || !ACTIONS.includes(action))
    throw new UsageError(
      `keys: expected create, change, list, revoke or rotate${action === undefined ? '' : `, not "${action}"`}`,
    );
  if (action === 'create' || action === 'list') noWords(others);
  if (values.has('--service-account') && action !== 'create')
    throw new UsageError('keys: --service-account is only valid with create');
  return await withStores(config, async (stores) => {
    const { accounts, served, adapters } = stores;
    const known = async (): Promise<string[]> => [
      ...(await (await import('./served-models.js')).configuredNames(config)),
      ...(await served.all()).keys(),
      ...(await adapters.all()).keys(),
    ];
    switch (action) {
      case 'create':
        return await create(stores, values, known);
      case 'change':
        return await change(accounts, others, values, known);
      case 'list':
        return await list(accounts, values);
      case 'revoke':
        return await revoke(accounts, others, values);
      default:
        return await rotate(accounts, others, values);
    }
  });
}

async function create(
  { accounts, serviceAccounts }: CommandStores,
  values: ReadonlyMap<string, string>,
  known: () => Promise<string[]>,
): Promise<number> {
  await accounts.organizations.ensureFirst(); // in case the first start was interrupted before it created one
  const permissions = permissionsOf(values);
  const owner = await organization(accounts, values);
  const account = await serviceAccount(serviceAccounts, owner ?? (await accounts.organizations.ensureFirst()), values);
  const made = await refusals(() =>
    accounts.createKey(
      {
        name: 'unnamed',
        ...given(permissions),
        ...(account === null ? {} : { serviceAccount: { id: account, by: null } }),
      },
      owner?.id,
      ACTOR,
    ),
  );
  await warnUnknown(permissions, known, 'The key was created anyway.');
  return print(made, values);
}

async function change(
  accounts: Accounts,
  words: readonly string[],
  values: ReadonlyMap<string, string>,
  known: () => Promise<string[]>,
): Promise<number> {
  const permissions = permissionsOf(values);
  if (Object.keys(given(permissions)).length === 0)
    throw new UsageError(
      'keys: change needs --name, --models, --scopes, --expires, --limits or --allow-address with the new value',
    );
  const key = only(await named(accounts, 'change', words, values));
  const changed = await refusals(() => accounts.keys.change(key.organizationId, key.id, permissions, ACTOR));
  if (changed === null) throw new UsageError(`keys: key "${key.id}" no longer exists`);
  await warnUnknown(permissions, known, 'The key was changed anyway.');
  if (values.has('--json')) process.stdout.write(`${JSON.stringify(keyObject(changed, new Date(accounts.now())))}\n`);
  else process.stdout.write(`changed ${key.id} (${printable(changed.name)})\n`);
  return 0;
}

/** Returns the name and permissions that the flags specify. Fields without a flag are undefined. Throws UsageError. */
function permissionsOf(values: ReadonlyMap<string, string>): KeyChange {
  const scopes = values.get('--scopes')?.split(',');
  for (const scope of scopes ?? [])
    if (!(ALL_SCOPES as readonly string[]).includes(scope))
      throw new UsageError(`keys: "${scope}" is not one of ${ALL_SCOPES.join(', ')}`);
  const name = values.get('--name');
  if (name !== undefined && (name.length === 0 || name.length > 128))
    throw new UsageError('keys: --name takes 1 to 128 characters');
  const models = words(values.get('--models'));
  if (models !== undefined && (models.length > 100 || models.some((one) => one === '' || one.length > 128)))
    throw new UsageError('keys: --models takes names, separated by commas');
  return {
    name,
    models,
    scopes: scopes as Scope[] | undefined,
    limits: limits(values.get('--limits')),
    expiresAt: expiry(values.get('--expires')),
    allowedAddresses: addresses(values.get('--allow-address')),
  };
}

const words = (text: string | undefined): string[] | undefined => text?.split(',').map((one) => one.trim());

function addresses(text: string | undefined): string[] | undefined {
  if (text === undefined || text === 'all') return text === undefined ? undefined : [];
  const parsed = addressesField.safeParse(words(text));
  if (parsed.success) return parsed.data;
  const at = parsed.error.issues[0]?.path[0];
  const entry = typeof at === 'number' ? words(text)?.[at] : undefined;
  throw new UsageError(
    entry === undefined
      ? `keys: --allow-address takes at most ${MAX_ADDRESSES} addresses`
      : `keys: --allow-address: "${printable(entry)}" is not an IP address or a CIDR range, such as 203.0.113.7 or 2001:db8::/32`,
  );
}

/** ID of the service account specified by --service-account; null without the flag. */
async function serviceAccount(
  serviceAccounts: ServiceAccounts,
  { id: organizationId, name: organizationName }: Organization,
  values: ReadonlyMap<string, string>,
): Promise<string | null> {
  const wanted = values.get('--service-account');
  if (wanted === undefined) return null;
  const all = await serviceAccounts.list(organizationId);
  const found = all.find(({ id, name }) => id === wanted || name === wanted);
  if (found === undefined)
    throw new UsageError(
      `keys: the organization "${printable(organizationName)}" has no service account "${printable(wanted)}"`,
    );
  return found.id;
}

/** Converts the store's rejections to usage errors. */
async function refusals<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError) throw new UsageError(`keys: ${error.message}`, error);
    throw error;
  }
}

/**
 * Warns about unknown model names. They are not an error, because the server may have models that these settings do not
 * name, or may get them later.
 */
async function warnUnknown(
  { models, limits: perModel }: KeyChange,
  known: () => Promise<string[]>,
  result: string,
): Promise<void> {
  const asked = [...new Set([...(models ?? []), ...Object.keys(perModel ?? {})])].filter((name) => name !== '*');
  if (asked.length === 0) return;
  const there = await known().catch((): string[] => []); // works even if the configured models cannot be served
  for (const name of there.length === 0 ? [] : asked) {
    if (!there.includes(name))
      process.stderr.write(
        `monolith: keys: no model "${printable(name)}" is known; known models: ${there.join(', ')}.${didYouMean(name, there)} ${result}\n`,
      );
  }
}

/** The organization specified by --organization; undefined without the flag. */
async function organization(
  { organizations }: Accounts,
  values: ReadonlyMap<string, string>,
): Promise<Organization | undefined> {
  const wanted = values.get('--organization');
  if (wanted === undefined) return undefined;
  const byId = await organizations.get(wanted);
  if (byId !== null) return byId;
  const named = (await organizations.all()).filter(({ name }) => name === wanted);
  if (named.length > 1) throw new UsageError(`keys: several organizations are named "${wanted}"; use the id`);
  if (named[0] === undefined) throw new UsageError(`keys: there is no organization "${wanted}"`);
  return named[0];
}

/** Undefined if the flag is absent; null means no limits. */
function limits(text: string | undefined): KeyRecord['limits'] | undefined {
  if (text === undefined || text === 'none') return text === undefined ? undefined : null;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new UsageError('keys: --limits takes JSON, such as {"*":{"rpm":10}}', error);
  }
  const parsed = limitsField.safeParse(json);
  if (!parsed.success)
    throw new UsageError(
      `keys: --limits: ${parsed.error.issues[0]?.path.join('.') ?? ''}: ${parsed.error.issues[0]?.message ?? 'must map model names to limits'}`,
    );
  return parsed.data;
}

function print({ key, secret }: CreatedKey, values: ReadonlyMap<string, string>): number {
  if (values.has('--json')) process.stdout.write(`${JSON.stringify({ ...keyObject(key, new Date()), secret })}\n`);
  else process.stdout.write(`${secret}\n`);
  // The key's other details are printed to stderr, and only on a terminal, so that a script that captures the output
  // gets only the key.
  if (process.stdout.isTTY && !values.has('--json'))
    process.stderr.write(
      `Name ${key.name}, ID ${key.id}${key.expiresAt === null ? '' : `, expires ${day(key.expiresAt)}`}. Save the key: it is shown only once.\n`,
    );
  return 0;
}

/** Undefined if the flag is absent; null means that the key never expires. */
function expiry(text: string | undefined): Date | null | undefined {
  if (text === undefined || text === 'never') return text === undefined ? undefined : null;
  const from = timeSpan(text);
  const date = from === null ? new Date(text) : new Date(Date.now() + from);
  if (Number.isNaN(date.getTime())) throw new UsageError(`keys: --expires takes a date, 90d or 12h, not "${text}"`);
  if (date.getTime() <= Date.now()) throw new UsageError(`keys: --expires ${text} is in the past`);
  return date;
}

const day = (text: string | null): string => text?.slice(0, 16).replace('T', ' ') ?? '-';

async function list(accounts: Accounts, values: ReadonlyMap<string, string>): Promise<number> {
  const now = new Date(accounts.now());
  const of = (await organization(accounts, values))?.id;
  const all = (await accounts.keys.all()).filter(
    (key) => (of === undefined || key.organizationId === of) && (values.has('--all') || isListed(key, now)),
  );
  if (values.has('--json')) {
    process.stdout.write(`${JSON.stringify(all.map((key) => keyObject(key, now)))}\n`);
    return 0;
  }
  const names = new Map((await accounts.organizations.all()).map(({ id, name }) => [id, name]));
  const several = new Set(all.map(({ organizationId }) => organizationId)).size > 1;
  process.stdout.write(
    table([
      ['ID', 'KEY', ...(several ? ['ORGANIZATION'] : []), 'NAME', 'STATUS', 'CREATED', 'LAST USED', 'EXPIRES'],
      ...all.map((key) => [
        key.id,
        `${key.publicId === null ? '' : `sk-${key.publicId}`}…${key.last4}`,
        ...(several ? [names.get(key.organizationId) ?? key.organizationId] : []),
        key.name,
        keyStatus(key, now),
        day(key.createdAt),
        day(key.lastUsedAt),
        day(key.expiresAt),
      ]),
    ]),
  );
  return 0;
}

async function revoke(
  accounts: Accounts,
  words: readonly string[],
  values: ReadonlyMap<string, string>,
): Promise<number> {
  const key = only(await named(accounts, 'revoke', words, values));
  await accounts.keys.revoke(key.organizationId, key.id, ACTOR);
  process.stdout.write(`revoked ${key.id} (${printable(key.name)})\n`);
  return 0;
}

async function rotate(
  accounts: Accounts,
  words: readonly string[],
  values: ReadonlyMap<string, string>,
): Promise<number> {
  const matches = await named(accounts, 'rotate', words, values);
  // A rotated key may stay valid for a while, together with its successor, which has the same name.
  const current = matches.filter(({ revokedAt }) => revokedAt === null);
  const key = only(current.length > 0 ? current : matches);
  const text = values.get('--overlap');
  const overlapS = text === undefined ? DEFAULT_OVERLAP_S : (timeSpan(text) ?? Infinity) / 1000;
  if (overlapS > MAX_OVERLAP_S)
    throw new UsageError(`keys: --overlap takes 0 to 30d, such as 24h, not "${text ?? ''}"`);
  const made = await refusals(() => accounts.keys.rotate(key.organizationId, key.id, overlapS, ACTOR, null));
  if (made !== null) return print(made, values);
  throw new UsageError(`keys: key "${key.id}" no longer exists`);
}

/** The keys that match the command's argument. Fails if there are none. */
async function named(
  accounts: Accounts,
  action: string,
  words: readonly string[],
  values: ReadonlyMap<string, string>,
): Promise<KeyRecord[]> {
  const [reference, ...others] = words;
  noWords(others);
  if (reference === undefined) throw new UsageError(`keys: ${action} needs a key`);
  const found = await accounts.findKeys(reference, (await organization(accounts, values))?.id);
  // The error does not repeat a mistyped key, because error messages may be logged.
  const shown = reference.length > 24 && reference.startsWith('sk-') ? `${reference.slice(0, 11)}…` : reference;
  if (found.length === 0) throw new UsageError(`keys: there is no key "${shown}"`);
  return found;
}

const MAX_LISTED = 10;

function only(keys: readonly KeyRecord[]): KeyRecord {
  const [key, ...others] = keys;
  if (key !== undefined && others.length === 0) return key;
  const listed = keys
    .slice(0, MAX_LISTED)
    .map(({ id, name, createdAt }) => `${id} (${printable(name)}, ${day(createdAt)})`);
  throw new UsageError(
    `keys: ${keys.length} keys match; use the ID: ${listed.join(', ')}${keys.length > MAX_LISTED ? ', …' : ''}`,
  );
}
