// Setting for admins: the addresses from which the organization can be opened on the dashboard.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DashboardAddresses } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { TextArea } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Code, Panel } from '../components/page.js';
import { Loaded, Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { useOrganization } from '../session.js';

export function DashboardAddressesSetting(): ReactNode {
  const { id, path } = useOrganization();
  const query = useQuery({
    queryKey: ['organization', id, 'dashboard-addresses'],
    queryFn: ({ signal }) => api.get<DashboardAddresses>(`${path}/dashboard-addresses`, {}, signal),
  });
  return (
    <Panel
      title="Dashboard addresses"
      lead="Restricts this organization's dashboard pages to certain IP addresses. API keys have their own lists."
    >
      <Loaded query={query}>
        {(current) => <AddressForm key={current.allowed_addresses.join(' ')} current={current} />}
      </Loaded>
    </Panel>
  );
}

function AddressForm({ current }: { current: DashboardAddresses }): ReactNode {
  const { id, path, status } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const saved = current.allowed_addresses.join('\n');
  const [text, setText] = useState(saved);
  const addresses = text.split(/[\s,]+/).filter((one) => one !== '');
  const save = (): void => {
    void action.run(async () => {
      const next = await api.put<DashboardAddresses>(`${path}/dashboard-addresses`, { allowed_addresses: addresses });
      client.setQueryData(['organization', id, 'dashboard-addresses'], next);
      toast(next.allowed_addresses.length === 0 ? 'All addresses are allowed' : 'Addresses saved');
    });
  };
  return (
    <Form onSubmit={save}>
      <div className="narrow">
        <TextArea
          label="Allowed addresses"
          value={text}
          placeholder={'203.0.113.7\n2001:db8::/32'}
          hint="IP addresses and ranges, one per line. From other addresses, the pages return 403. Leave empty to allow all addresses."
          error={action.errorOf('allowed_addresses')}
          onChange={(event) => setText(event.target.value)}
        />
      </div>
      <p className="hint">
        Your address: <Code>{current.your_address}</Code>{' '}
        {!addresses.includes(current.your_address) && (
          <button
            type="button"
            className="link-button"
            onClick={() => setText([...addresses, current.your_address].join('\n'))}
          >
            Add my address
          </button>
        )}
      </p>
      {current.only_owner && addresses.length > 0 && (
        <Notice tone="warn">
          You are the only owner. If your address changes to one that is not in this list, only another admin at an
          allowed address or the operator of this server can let you in again.
        </Notice>
      )}
      <FormError action={action} fields={['allowed_addresses']} />
      <div className="form-end">
        <Button
          type="submit"
          variant="primary"
          busy={action.busy}
          disabled={addresses.join('\n') === saved || status === 'suspended'}
        >
          Save addresses
        </Button>
      </div>
    </Form>
  );
}
