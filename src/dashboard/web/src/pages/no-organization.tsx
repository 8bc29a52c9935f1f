import { useState } from 'react';
import type { ReactNode } from 'react';
import { Button } from '../components/button.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { NewOrganizationDialog } from '../layout/organization-switcher.js';

export function NoOrganization(): ReactNode {
  const [creating, setCreating] = useState(false);
  return (
    <>
      <PageHeader title="No organization" />
      <Panel flush>
        <EmptyState
          icon="organizations"
          title="You do not belong to an organization"
          action={
            <Button variant="primary" onClick={() => setCreating(true)}>
              New organization
            </Button>
          }
        >
          Keys, limits and usage belong to an organization. Create an organization, or accept an invitation to join one.
        </EmptyState>
      </Panel>
      {creating && <NewOrganizationDialog onClose={() => setCreating(false)} />}
    </>
  );
}
