// monolith organizations: lists organizations, and clears the list of addresses from which an organization can be
// opened on the dashboard. Works on the data directory or the shared database, whether or not a server is running on
// it.

import type { Accounts } from '../accounts/accounts.js';
import type { Actor } from '../accounts/audit.js';
import type { OrganizationView } from '../accounts/organizations.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { printable } from '../hub/hub-error.js';
import { withStores } from '../server/command-stores.js';
import { commandConfig } from './command-config.js';
import { askedForHelp, table } from './output.js';

const HELP = `
Usage: monolith organizations list [--json]
       monolith organizations clear-addresses ORG

list shows each organization with the addresses from which it can be opened on the dashboard. clear-addresses allows
all addresses again, for an organization whose members are locked out. ORG is an ID or a name.

  --data-dir PATH       the data directory
  --database URL        the database that several servers share

Examples:
  monolith organizations list
  monolith organizations clear-addresses Research
`;

export const FLAGS: OwnFlags = { '--json': 'switch' };

const ACTOR: Actor = { type: 'command_line', id: null, email: null, ip: null };

export async function organizations(argv: string[]): Promise<number> {
  if (argv.length === 0 || askedForHelp(argv, HELP)) {
    if (argv.length === 0) process.stdout.write(`${HELP.trim()}\n`);
    return argv.length === 0 ? 2 : 0;
  }
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [action, ...others] = words;
  if (action !== 'list' && action !== 'clear-addresses')
    throw new UsageError(
      `organizations: expected list or clear-addresses${action === undefined ? '' : `, not "${action}"`}`,
    );
  if (action === 'list') noWords(others);
  return await withStores(config, ({ accounts }) =>
    action === 'list' ? list(accounts, values.has('--json')) : clearAddresses(accounts, others),
  );
}

const addressesOf = ({ settings }: OrganizationView): readonly string[] => settings.dashboardAddresses ?? [];

async function views({ organizations: port }: Accounts): Promise<OrganizationView[]> {
  const found = await Promise.all((await port.all()).map(({ id }) => port.get(id)));
  return found.filter((one) => one !== null);
}

async function list(accounts: Accounts, asJson: boolean): Promise<number> {
  const all = await views(accounts);
  if (asJson) {
    const shown = all.map((one) => ({
      id: one.id,
      name: one.name,
      status: one.status,
      created_at: one.createdAt,
      dashboard_addresses: addressesOf(one),
    }));
    process.stdout.write(`${JSON.stringify(shown)}\n`);
    return 0;
  }
  process.stdout.write(
    table([
      ['ID', 'NAME', 'STATUS', 'CREATED', 'DASHBOARD ADDRESSES'],
      ...all.map((one) => [
        one.id,
        one.name,
        one.status,
        one.createdAt.slice(0, 10),
        addressesOf(one).length === 0 ? 'all' : addressesOf(one).join(', '),
      ]),
    ]),
  );
  return 0;
}

async function clearAddresses(accounts: Accounts, words: readonly string[]): Promise<number> {
  const [wanted, ...others] = words;
  noWords(others);
  if (wanted === undefined) throw new UsageError('organizations: clear-addresses needs an organization');
  const all = await views(accounts);
  const byId = all.filter(({ id }) => id === wanted);
  const [found, ...more] = byId.length > 0 ? byId : all.filter(({ name }) => name === wanted);
  if (found === undefined) throw new UsageError(`organizations: there is no organization "${printable(wanted)}"`);
  if (more.length > 0)
    throw new UsageError(`organizations: several organizations are named "${printable(wanted)}"; use the ID`);
  await accounts.organizations.change(found.id, { dashboardAddresses: [] }, ACTOR);
  process.stdout.write(`${found.id} (${printable(found.name)}) can be opened from all addresses\n`);
  return 0;
}
