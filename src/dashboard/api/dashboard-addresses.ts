// …/dashboard-addresses: the IP addresses from which an organization can be opened on the dashboard.

import { z } from 'zod';
import type { Members } from '../../accounts/members.js';
import { MAX_MEMBERS } from '../../accounts/members.js';
import type { Organizations } from '../../accounts/organizations.js';
import { AddressList, plainAddress } from '../../shared/address-list.js';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { DashboardAddresses } from '../../shared/wire/organizations.js';
import { addressesField } from './key-fields.js';
import { readWhole } from './read-whole.js';
import type { Guard, MemberCall } from './guard.js';

const PATH = '/organizations/:org/dashboard-addresses';

export interface DashboardAddressDeps {
  guard: Guard;
  organizations: Pick<Organizations, 'change'>;
  members: Pick<Members, 'page'>;
}

export function dashboardAddressRoutes({ guard, organizations, members }: DashboardAddressDeps): Route[] {
  const shown = async (
    { exchange, organization, role }: MemberCall<unknown>,
    addresses: readonly string[],
  ): Promise<DashboardAddresses> => ({
    allowed_addresses: [...addresses],
    your_address: plainAddress(exchange.remoteAddress),
    only_owner: role === 'owner' && (await owners(exchange, organization.id)) === 1,
  });

  const owners = async (exchange: Exchange, organizationId: string): Promise<number> => {
    const page = await readWhole(exchange, () => members.page(organizationId, MAX_MEMBERS, null));
    return page?.data.filter(({ role }) => role === 'owner').length ?? 0;
  };

  return [
    guard.member('admin', {
      method: 'GET',
      path: PATH,
      handler: async (call) =>
        call.exchange.json(200, await shown(call, call.organization.settings.dashboardAddresses ?? [])),
    }),

    guard.member('admin', {
      method: 'PUT',
      path: PATH,
      body: z.object({ allowed_addresses: addressesField }),
      handler: async (call) => {
        const { exchange, organization, actor, body } = call;
        const addresses = [...new Set(body.allowed_addresses)];
        if (AddressList.of(addresses)?.allows(exchange.remoteAddress) === false)
          throw apiError(
            'invalid_value',
            `allowed_addresses must include ${plainAddress(exchange.remoteAddress)}, the address that you are using now; otherwise you would be locked out.`,
            'allowed_addresses',
          );
        const changed = await organizations.change(organization.id, { dashboardAddresses: addresses }, actor);
        if (changed === null) throw apiError('resource_not_found', 'Organization not found.', 'org');
        exchange.json(200, await shown(call, addresses));
      },
    }),
  ];
}
