// Whether prompts and answers are kept in the request log: an organization's admins decide.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { OrganizationObject } from '../../../../shared/wire/dashboard.js';
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
    toast(request_text ? 'Prompts and answers are kept from now on' : 'Prompts and answers are no longer kept');
  };
  return (
    <Panel
      title="Request log"
      lead="It has every request of the last days. Prompts and answers are in it only if you want them to be."
    >
      <Loaded query={query}>
        {({ request_text: isKept }) => (
          <div className="row">
            <span>
              {isKept ? 'Prompts and answers are kept, for admins to read.' : 'Prompts and answers are not kept.'}
            </span>
            <Button size="small" disabled={status === 'suspended'} onClick={() => setAsking(true)}>
              {isKept ? 'Stop keeping them' : 'Keep prompts and answers'}
            </Button>
          </div>
        )}
      </Loaded>
      {asking && query.data !== undefined && (
        <ConfirmDialog
          title={query.data.request_text ? 'Stop keeping prompts and answers?' : 'Keep prompts and answers?'}
          confirm={query.data.request_text ? 'Stop and erase' : 'Keep them'}
          danger={query.data.request_text}
          onConfirm={() => set(query.data.request_text === false)}
          onClose={() => setAsking(false)}
        >
          <p>
            {query.data.request_text
              ? 'What was kept so far is erased.'
              : 'From now on what this organization sends and gets, up to a bound, is stored on this server for some days. Owners and admins can read it; operators of the server do not see it here.'}
          </p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}
