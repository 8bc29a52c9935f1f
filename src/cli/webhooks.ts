// monolith webhooks: manages the webhook endpoints of organizations, in the data directory or the shared database, even
// while a server is using it. A running server applies a change from the next event on.

import type { Actor } from '../accounts/audit.js';
import { DEFAULT_OVERLAP_S, MAX_OVERLAP_S } from '../accounts/api-keys.js';
import type { Organization } from '../accounts/keys.js';
import { storedKeyRing } from '../accounts/sealing/open-sealer.js';
import { SecretBox } from '../accounts/sealing/secret-box.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import type { Config } from '../config/settings.js';
import { webhookUrlField } from '../dashboard/api/fields.js';
import { printable } from '../hub/hub-error.js';
import { withStores } from '../server/command-stores.js';
import type { CommandStores } from '../server/command-stores.js';
import { ApiError } from '../shared/errors.js';
import { EVENT_TYPES } from '../shared/wire/webhooks.js';
import type { EventType } from '../shared/wire/webhooks.js';
import { WebhookEndpoints } from '../webhooks/endpoints.js';
import type { EndpointWithSecret } from '../webhooks/endpoints.js';
import { SEALED_FOR } from '../webhooks/secrets.js';
import { webhookDelivery, webhookObject } from '../webhooks/shown.js';
import type { Endpoint } from '../webhooks/webhook-store.js';
import { commandConfig } from './command-config.js';
import { askedForHelp, table } from './output.js';
import { timeSpan } from './time-span.js';

const HELP = `
Usage: monolith webhooks list [--json]
       monolith webhooks create URL [--events A,B] [--json]
       monolith webhooks change ENDPOINT [--url URL] [--events A,B]
       monolith webhooks enable ENDPOINT
       monolith webhooks disable ENDPOINT
       monolith webhooks rotate ENDPOINT [--overlap TIME] [--json]
       monolith webhooks delete ENDPOINT
       monolith webhooks deliveries ENDPOINT [--json]

Manages the endpoints that are notified when a background response or a batch ends. ENDPOINT is an ID or a URL. If
several endpoints match, nothing changes, and the error lists their IDs.

create and rotate print the signing secret once. After rotate, requests are signed with the new and the old secret for
--overlap (default 24h, 0 to 30d), so that receivers can be changed one after another. 0 removes the old secret
immediately. If the server uses the secrets.signing_keys setting, create and rotate require the same setting.

deliveries lists the last 50 deliveries to an endpoint, newest first.

  --events A,B          ${EVENT_TYPES.slice(0, 4).join(', ')},
                        ${EVENT_TYPES.slice(4).join(', ')};
                        all by default
  --organization ORG    ID or name of the organization; default: the first organization for create, all otherwise
  --data-dir PATH       the data directory
  --database URL        the database that several servers share

Examples:
  monolith webhooks create https://example.com/hook --events batch.completed,batch.failed
  monolith webhooks rotate https://example.com/hook --overlap 7d
`;

export const FLAGS: OwnFlags = {
  '--url': 'value',
  '--events': 'value',
  '--overlap': 'value',
  '--organization': 'value',
  '--json': 'switch',
};

const ACTIONS = ['list', 'create', 'change', 'enable', 'disable', 'rotate', 'delete', 'deliveries'] as const;
type Action = (typeof ACTIONS)[number];

const ACTOR: Actor = { type: 'command_line', id: null, email: null, ip: null };
const MAX_DELIVERIES = 50;
const MAX_LISTED = 10;

/** The actions for which each flag is valid. The other flags are valid for all actions. */
const FLAG_ACTIONS: Readonly<Record<string, readonly Action[]>> = {
  '--url': ['change'],
  '--events': ['create', 'change'],
  '--overlap': ['rotate'],
  '--json': ['list', 'create', 'rotate', 'deliveries'],
};

type Values = ReadonlyMap<string, string>;

interface Context {
  readonly stores: CommandStores;
  readonly config: Config;
  readonly values: Values;
}

export async function webhooks(argv: string[]): Promise<number> {
  if (argv.length === 0 || askedForHelp(argv, HELP)) {
    if (argv.length === 0) process.stdout.write(`${HELP.trim()}\n`);
    return argv.length === 0 ? 2 : 0;
  }
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [action, ...others] = words;
  if (!isAction(action))
    throw new UsageError(
      `webhooks: expected ${ACTIONS.slice(0, -1).join(', ')} or ${ACTIONS.at(-1) ?? ''}${action === undefined ? '' : `, not "${action}"`}`,
    );
  for (const [flag, actions] of Object.entries(FLAG_ACTIONS))
    if (values.has(flag) && !actions.includes(action))
      throw new UsageError(`webhooks: ${flag} is only valid with ${actions.join(', ')}`);
  return await withStores(config, async (stores) => {
    const context = { stores, config, values };
    try {
      return await run(action, others, context);
    } catch (error) {
      if (error instanceof ApiError) throw new UsageError(`webhooks: ${error.message}`, error);
      throw error;
    }
  });
}

const isAction = (word: string | undefined): word is Action =>
  (ACTIONS as readonly (string | undefined)[]).includes(word);

async function run(action: Action, words: readonly string[], context: Context): Promise<number> {
  const { stores, values } = context;
  if (action === 'list') {
    noWords(words);
    return list(context);
  }
  if (action === 'create') return create(words, context);
  const endpoint = await named(action, words, context);
  const { id, organizationId } = endpoint;
  switch (action) {
    case 'change':
      return change(endpoint, context);
    case 'enable':
    case 'disable':
      ensureExists(await endpointsOf(context).change(organizationId, id, { enabled: action === 'enable' }, ACTOR), id);
      return say(`${action}d`, endpoint);
    case 'rotate':
      return rotate(endpoint, context);
    case 'delete':
      ensureExists(await endpointsOf(context).remove(organizationId, id, ACTOR), id);
      return say('deleted', endpoint);
    default:
      return deliveries(endpoint, stores, values);
  }
}

/**
 * Throws UsageError if the endpoint was deleted after the command found it. `found`: the result of the change; null or
 * false if the endpoint no longer exists.
 */
function ensureExists<T>(found: T | null | false, id: string): asserts found is T {
  if (found === null || found === false) throw new UsageError(`webhooks: endpoint "${id}" no longer exists`);
}

function say(what: string, { id, url }: Endpoint): number {
  process.stdout.write(`${what} ${id} (${printable(url)})\n`);
  return 0;
}

const notOpened = (): never => {
  throw new Error('the command has not opened the keys');
};
const NO_BOX: Pick<SecretBox, 'open' | 'seal'> = { open: notOpened, seal: notOpened };

const boxOf = async ({ stores, config }: Context): Promise<SecretBox> =>
  new SecretBox(await storedKeyRing(stores.sealer, config.secrets.signing_keys));

/** `box`: encrypts the secret; needed only by actions that change it. */
function endpointsOf({ stores, config }: Context, box: Pick<SecretBox, 'open' | 'seal'> = NO_BOX): WebhookEndpoints {
  return new WebhookEndpoints({
    store: stores.webhooks,
    box,
    audit: stores.audit,
    settings: config.webhooks,
    now: () => stores.accounts.now(),
  });
}

async function list({ stores, values }: Context): Promise<number> {
  const organizations = await organizationsOf(stores, values);
  const now = stores.accounts.now();
  const rows: { readonly organization: Organization; readonly endpoint: Endpoint }[] = [];
  for (const organization of organizations)
    for (const endpoint of await stores.webhooks.endpoints(organization.id)) rows.push({ organization, endpoint });
  if (values.has('--json')) {
    const shown = rows.map(({ organization, endpoint }) => ({
      ...webhookObject(endpoint, now),
      organization_id: organization.id,
    }));
    process.stdout.write(`${JSON.stringify(shown)}\n`);
    return 0;
  }
  const several = new Set(rows.map(({ organization }) => organization.id)).size > 1;
  process.stdout.write(
    table([
      ['ID', 'URL', ...(several ? ['ORGANIZATION'] : []), 'STATE', 'EVENTS', 'LAST DELIVERY', 'OLD SECRET UNTIL'],
      ...rows.map(({ organization, endpoint }) => {
        const { last_delivered_at: delivered, previous_secrets_until: until } = webhookObject(endpoint, now);
        return [
          endpoint.id,
          printable(endpoint.url),
          ...(several ? [printable(organization.name)] : []),
          endpoint.disabled === null ? 'enabled' : 'disabled',
          EVENT_TYPES.every((type) => endpoint.events.includes(type)) ? 'all' : endpoint.events.join(','),
          minute(delivered),
          minute(until),
        ];
      }),
    ]),
  );
  return 0;
}

const minute = (text: string | null): string => text?.slice(0, 16).replace('T', ' ') ?? '-';

async function create(words: readonly string[], context: Context): Promise<number> {
  const { stores, values } = context;
  const [url, ...others] = words;
  noWords(others);
  if (url === undefined) throw new UsageError('webhooks: create needs a URL');
  await stores.accounts.organizations.ensureFirst(); // in case the first start was interrupted before it created one
  const organization = values.has('--organization')
    ? (await organizationsOf(stores, values))[0]!
    : await stores.accounts.organizations.ensureFirst();
  const endpoints = endpointsOf(context, await boxOf(context));
  const made = { url: checkedUrl(url), events: events(values) ?? null };
  return print(await endpoints.create(organization.id, made, ACTOR), context);
}

async function change(endpoint: Endpoint, context: Context): Promise<number> {
  const { values } = context;
  const url = values.get('--url');
  const change = { url: url === undefined ? null : checkedUrl(url), events: events(values) };
  if (change.url === null && change.events === undefined)
    throw new UsageError('webhooks: change needs --url or --events with the new value');
  const endpoints = endpointsOf(context);
  const changed = await endpoints.change(endpoint.organizationId, endpoint.id, change, ACTOR);
  ensureExists(changed, endpoint.id);
  return say('changed', changed);
}

async function rotate(endpoint: Endpoint, context: Context): Promise<number> {
  const text = context.values.get('--overlap');
  const overlapS = text === undefined ? DEFAULT_OVERLAP_S : (timeSpan(text) ?? Infinity) / 1_000;
  if (overlapS > MAX_OVERLAP_S)
    throw new UsageError(`webhooks: --overlap takes 0 to 30d, such as 24h, not "${text ?? ''}"`);
  const box = await boxOf(context);
  if (overlapS > 0 && box.open(SEALED_FOR, endpoint.id, endpoint.sealedSecret) === null)
    throw new UsageError(
      "webhooks: the endpoint's secret cannot be decrypted; the command needs the server's setting " +
        'secrets.signing_keys, or --overlap 0',
    );
  const rotated = await endpointsOf(context, box).rotate(endpoint.organizationId, endpoint.id, overlapS, ACTOR);
  ensureExists(rotated, endpoint.id);
  return print(rotated, context);
}

/** Only the secret goes to stdout, so that a script can capture it. */
function print({ endpoint, secret }: EndpointWithSecret, { stores, values }: Context): number {
  if (values.has('--json'))
    process.stdout.write(`${JSON.stringify({ ...webhookObject(endpoint, stores.accounts.now()), secret })}\n`);
  else process.stdout.write(`${secret}\n`);
  if (process.stdout.isTTY && !values.has('--json'))
    process.stderr.write(`Endpoint ${endpoint.id}. Save the signing secret: it is shown only once.\n`);
  return 0;
}

async function deliveries(
  { organizationId, id }: Endpoint,
  { webhooks }: CommandStores,
  values: Values,
): Promise<number> {
  const found = (await webhooks.deliveries(organizationId, id, MAX_DELIVERIES)).map(webhookDelivery);
  if (values.has('--json')) process.stdout.write(`${JSON.stringify(found)}\n`);
  else
    process.stdout.write(
      table([
        ['EVENT', 'TYPE', 'OBJECT', 'STATE', 'CREATED', 'ATTEMPTS', 'ERROR'],
        ...found.map((one) => [
          one.event_id,
          one.type,
          one.object_id,
          one.state,
          minute(one.created_at),
          String(one.attempts),
          printable(one.error ?? '-'),
        ]),
      ]),
    );
  return 0;
}

/** The organization specified by --organization, or all organizations if the flag is absent. */
async function organizationsOf({ accounts }: CommandStores, values: Values): Promise<readonly Organization[]> {
  const all = await accounts.organizations.all();
  const wanted = values.get('--organization');
  if (wanted === undefined) return all;
  const byId = all.filter(({ id }) => id === wanted);
  const found = byId.length > 0 ? byId : all.filter(({ name }) => name === wanted);
  if (found.length > 1)
    throw new UsageError(`webhooks: several organizations are named "${printable(wanted)}"; use the ID`);
  if (found.length === 0) throw new UsageError(`webhooks: there is no organization "${printable(wanted)}"`);
  return found;
}

/** The endpoint named by the command's argument. */
async function named(action: Action, words: readonly string[], { stores, values }: Context): Promise<Endpoint> {
  const [reference, ...others] = words;
  noWords(others);
  if (reference === undefined) throw new UsageError(`webhooks: ${action} needs an endpoint`);
  const found: Endpoint[] = [];
  for (const { id } of await organizationsOf(stores, values))
    for (const endpoint of await stores.webhooks.endpoints(id))
      if (endpoint.id === reference || endpoint.url === reference) found.push(endpoint);
  const [endpoint, ...more] = found;
  if (endpoint === undefined) throw new UsageError(`webhooks: there is no endpoint "${printable(reference)}"`);
  if (more.length > 0)
    throw new UsageError(
      `webhooks: ${found.length} endpoints match; use the ID: ${found
        .slice(0, MAX_LISTED)
        .map(({ id }) => id)
        .join(', ')}${found.length > MAX_LISTED ? ', …' : ''}`,
    );
  return endpoint;
}

function checkedUrl(text: string): string {
  const parsed = webhookUrlField.safeParse(text);
  if (!parsed.success)
    throw new UsageError('webhooks: the URL must be an http:// or https:// address without a password');
  return parsed.data;
}

/** Undefined if not given. */
function events(values: Values): readonly EventType[] | undefined {
  const given = values
    .get('--events')
    ?.split(',')
    .map((one) => one.trim());
  for (const type of given ?? [])
    if (!(EVENT_TYPES as readonly string[]).includes(type))
      throw new UsageError(`webhooks: "${printable(type)}" is not one of ${EVENT_TYPES.join(', ')}`);
  return given === undefined ? undefined : [...new Set(given as EventType[])];
}
