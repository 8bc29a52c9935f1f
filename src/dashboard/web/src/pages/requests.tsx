// Every request made with the organization's keys in the last few days.
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { OrganizationObject } from '../../../../shared/wire/organizations.js';
import type { RequestObject } from '../../../../shared/wire/requests.js';
import { api } from '../api.js';
import { LinkButton } from '../components/button.js';
import { useList } from '../components/list.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { keyHint } from '../format.js';
import { useModels } from '../queries.js';
import { RequestDialog, RequestText } from '../requests/request-dialog.js';
import { NO_FILTER, RefreshButton, RequestFilters, RequestList } from '../requests/request-table.js';
import { useOrganization } from '../session.js';

const PLAYGROUND = 'playground';

export function Requests(): ReactNode {
  const { id, path, may } = useOrganization();
  const [filter, setFilter] = useState(NO_FILTER);
  const [opened, setOpened] = useState<RequestObject | null>(null);
  const list = useList<RequestObject>(['organization', id, 'requests'], `${path}/requests`, { ...filter });
  const models = useModels();
  const keys = useQuery({
    queryKey: ['organization', id, 'api-keys', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<ApiKeyObject>>(`${path}/api-keys`, { limit: 100 }, signal),
  });
  const organization = useQuery({
    queryKey: ['organization', id, 'settings'],
    queryFn: ({ signal }) => api.get<OrganizationObject>(path, {}, signal),
  });
  const choices = useMemo(
    () => [
      { value: PLAYGROUND, label: 'Playground' },
      ...(keys.data?.data ?? []).map((key) => ({ value: key.id, label: `${key.name} (${keyHint(key)})` })),
    ],
    [keys.data],
  );
  const nameOf = (key: string): string => choices.find(({ value }) => value === key)?.label ?? key;
  const isFiltered = Object.values(filter).some((value) => value !== '');
  const why =
    organization.data?.request_text !== true
      ? 'Prompts and responses are not stored. An admin can enable this under Settings.'
      : may('admin')
        ? 'No text was stored for this request.'
        : 'Only admins can see prompts and responses.';
  return (
    <>
      <PageHeader title="Requests" actions={<RefreshButton list={list} />}>
        Every request of the last few days, newest first.{' '}
        {organization.data?.request_text === true
          ? 'Prompts and responses are stored. Admins can read them.'
          : 'Prompts and responses are not stored.'}
      </PageHeader>
      <RequestFilters
        filter={filter}
        onChange={setFilter}
        keys={choices}
        models={models.data?.map((model) => model.id) ?? []}
      />
      <Panel flush>
        <RequestList
          list={list}
          onOpen={setOpened}
          who={{
            key: 'key',
            header: 'API key',
            cell: ({ api_key_id: key }) => (
              <span className="clip request-who" title={nameOf(key)}>
                {keys.data?.data.find((one) => one.id === key)?.name ?? nameOf(key)}
              </span>
            ),
          }}
          empty={
            isFiltered ? (
              <EmptyState icon="requests" title="No matching requests">
                No requests match these filters.
              </EmptyState>
            ) : (
              <EmptyState
                icon="requests"
                title="No requests yet"
                action={<LinkButton href="/playground">Open the playground</LinkButton>}
              >
                Requests appear here shortly after they end.
              </EmptyState>
            )
          }
        />
      </Panel>
      {opened !== null && (
        <RequestDialog
          request={opened}
          path={`${path}/requests`}
          keyName={nameOf(opened.api_key_id)}
          onClose={() => setOpened(null)}
        >
          {(detail) => <RequestText detail={detail} why={why} />}
        </RequestDialog>
      )}
    </>
  );
}
