// Setting for admins: whether the request log stores prompts and responses.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { OrganizationObject } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Panel } from '../components/page.js';
import { Loaded } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { useOrganization } from '../session.js';

export function RequestTextSetting(): ReactNode {
  const { id, path, status } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const query = useQuery({
    queryKey: ['organization', id, 'settings'],
    queryFn: ({ signal }) => api.get<OrganizationObject>(path, {}, signal),
  });
  const set = async (request_text: boolean): Promise<void> => {
    const changed = await api.patch<OrganizationObject>(path, { request_text });
    client.setQueryData(['organization', id, 'settings'], changed);
    await client.invalidateQueries({ queryKey: ['request'] });
    toast(request_text ? 'Prompts and responses are now stored' : 'Prompts and responses are no longer stored');
  };
  return (
    <Panel
      title="Request log"
      lead="The log lists every request of the last few days. It includes prompts and responses only if you turn this on."
    >
      <Loaded query={query}>
        {({ request_text: isKept }) => (
          <div className="row">
            <span>
              {isKept
                ? 'Prompts and responses are stored. Admins can read them.'
                : 'Prompts and responses are not stored.'}
            </span>
            <Button size="small" disabled={status === 'suspended'} onClick={() => setAsking(true)}>
              {isKept ? 'Stop storing them' : 'Store prompts and responses'}
            </Button>
          </div>
        )}
      </Loaded>
      {asking && query.data !== undefined && (
        <ConfirmDialog
          title={query.data.request_text ? 'Stop storing prompts and responses?' : 'Store prompts and responses?'}
          confirm={query.data.request_text ? 'Stop and erase' : 'Store them'}
          danger={query.data.request_text}
          onConfirm={() => set(query.data.request_text === false)}
          onClose={() => setAsking(false)}
        >
          <p>
            {query.data.request_text
              ? 'Everything stored so far will be erased.'
              : 'From now on, this server stores the prompts and responses of this organization for a few days, up to a size limit. Owners and admins can read them. The dashboard does not show them to operators.'}
          </p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}
