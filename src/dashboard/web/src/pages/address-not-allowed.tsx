// Shown in place of an organization's pages if the organization cannot be opened from the user's IP address.
import type { ReactNode } from 'react';
import { Button } from '../components/button.js';
import { Code, PageHeader } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { useMe, useOrganization, useSession } from '../session.js';

export function AddressNotAllowed(): ReactNode {
  const { name } = useOrganization();
  const { address, user } = useMe();
  const { reload } = useSession();
  return (
    <>
      <PageHeader title="Not available from your address" />
      <EmptyState
        icon="warning"
        title={`${name} cannot be opened from this address`}
        action={<Button onClick={() => void reload()}>Try again</Button>}
      >
        <p>
          The server sees you at <Code>{address}</Code>. Use an address that the organization allows, or ask one of its
          admins to add this one under Settings.
        </p>
        <p>
          {user.operator
            ? "As an operator, you can allow all addresses again on the organization's page under Organizations."
            : 'If nobody can open the organization, the operator of this server can allow all addresses again.'}
        </p>
      </EmptyState>
    </>
  );
}
