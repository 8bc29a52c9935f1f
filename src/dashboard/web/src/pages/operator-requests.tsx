// Requests from the last few days, of one or all organizations. Prompts and responses are not shown.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import type { OperatorOrganization } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { Select } from '../components/field.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { RequestDialog } from '../requests/request-dialog.js';
import { useRequestView } from '../requests/request-filter.js';
import { RequestActions, RequestFilters } from '../requests/request-filters.js';
import { RequestList } from '../requests/request-table.js';
import { useRequests } from '../requests/use-requests.js';

const PAGE = '/operator/requests';
const NO_ORGANIZATION = 'No known API key';

export function OperatorRequests(): ReactNode {
  const view = useRequestView(PAGE);
  const { list, refresh } = useRequests(['operator', 'requests'], PAGE, view);
  const models = useQuery({
    queryKey: ['operator', 'models'],
    queryFn: ({ signal }) => api.get<ListPage<DashboardModel>>('/operator/models', {}, signal),
  });
  const organizations = useQuery({
    queryKey: ['operator', 'organizations', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<OperatorOrganization>>('/operator/organizations', { limit: 100 }, signal),
  });
  const nameOf = (id: string | null): string =>
    id === null ? NO_ORGANIZATION : (organizations.data?.data.find((one) => one.id === id)?.name ?? id);
  return (
    <>
      <PageHeader title="All requests" actions={<RequestActions view={view} path={PAGE} onRefresh={refresh} />}>
        Every request of the last few days, newest first, including refused ones. Prompts and responses are not shown.
      </PageHeader>
      <RequestFilters
        view={view}
        keys={null}
        models={models.data?.data.map(({ id }) => id) ?? []}
        extra={
          <Select
            label="Organization"
            hideLabel
            value={view.filter.organization}
            onChange={(event) => view.set({ organization: event.target.value })}
            options={[
              { value: '', label: 'All organizations' },
              { value: 'none', label: NO_ORGANIZATION },
              ...(organizations.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
            ]}
          />
        }
      />
      <Panel flush>
        <RequestList
          list={list}
          linkTo={view.linkTo}
          live={view.live}
          empty={
            <EmptyState icon="requests" title="No requests">
              {view.isFiltered ? 'No requests match these filters.' : 'Requests appear here shortly after they end.'}
            </EmptyState>
          }
          who={{
            key: 'organization',
            header: 'Organization',
            cell: ({ organization_id: of }) => (
              <span className={`clip request-who ${of === null ? 'muted' : ''}`} title={of ?? undefined}>
                {nameOf(of)}
              </span>
            ),
          }}
        />
      </Panel>
      {view.opened !== null && (
        <RequestDialog
          id={view.opened}
          path={PAGE}
          link={`${PAGE}?${new URLSearchParams({ request: view.opened })}`}
          keyName={(key) => key ?? NO_ORGANIZATION}
          organizationName={nameOf}
          onClose={view.close}
        />
      )}
    </>
  );
}
