// Requests from the last few days, of one or all organizations. Prompts and responses are not shown.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import type { OperatorOrganization } from '../../../../shared/wire/organizations.js';
import type { RequestObject } from '../../../../shared/wire/requests.js';
import { api } from '../api.js';
import { Select } from '../components/field.js';
import { useList } from '../components/list.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { RequestDialog } from '../requests/request-dialog.js';
import { NO_FILTER, RefreshButton, RequestFilters, RequestList } from '../requests/request-table.js';

export function OperatorRequests(): ReactNode {
  const [filter, setFilter] = useState(NO_FILTER);
  const [organization, setOrganization] = useState('');
  const [opened, setOpened] = useState<RequestObject | null>(null);
  const { api_key: _none, ...asked } = filter;
  const list = useList<RequestObject>(['operator', 'requests'], '/operator/requests', { ...asked, organization });
  const models = useQuery({
    queryKey: ['operator', 'models'],
    queryFn: ({ signal }) => api.get<ListPage<DashboardModel>>('/operator/models', {}, signal),
  });
  const organizations = useQuery({
    queryKey: ['operator', 'organizations', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<OperatorOrganization>>('/operator/organizations', { limit: 100 }, signal),
  });
  const nameOf = (id: string): string => organizations.data?.data.find((one) => one.id === id)?.name ?? id;
  return (
    <>
      <PageHeader title="All requests" actions={<RefreshButton list={list} />}>
        Every request of the last few days, newest first. Prompts and responses are not shown.
      </PageHeader>
      <RequestFilters
        filter={filter}
        onChange={setFilter}
        keys={null}
        models={models.data?.data.map(({ id }) => id) ?? []}
        extra={
          <Select
            label="Organization"
            value={organization}
            onChange={(event) => setOrganization(event.target.value)}
            options={[
              { value: '', label: 'All organizations' },
              ...(organizations.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
            ]}
          />
        }
      />
      <Panel flush>
        <RequestList
          list={list}
          onOpen={setOpened}
          empty={
            <EmptyState icon="requests" title="No requests">
              No requests match these filters.
            </EmptyState>
          }
          who={{
            key: 'organization',
            header: 'Organization',
            cell: ({ organization_id: of }) => (
              <span className="clip request-who" title={of}>
                {nameOf(of)}
              </span>
            ),
          }}
        />
      </Panel>
      {opened !== null && (
        <RequestDialog
          request={opened}
          path="/operator/requests"
          keyName={opened.api_key_id}
          onClose={() => setOpened(null)}
        />
      )}
    </>
  );
}
