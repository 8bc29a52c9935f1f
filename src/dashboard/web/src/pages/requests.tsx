// Every request made with the organization's keys in the last few days.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import type { ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { OrganizationObject } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { Button, LinkButton } from '../components/button.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { keyHint } from '../format.js';
import { useModels, useServiceAccounts } from '../queries.js';
import { RequestDialog, RequestText } from '../requests/request-dialog.js';
import { useRequestView } from '../requests/request-filter.js';
import { RequestActions, RequestFilters } from '../requests/request-filters.js';
import { RequestList } from '../requests/request-table.js';
import { useRequests } from '../requests/use-requests.js';
import { useMe, useOrganization, useSession } from '../session.js';

const PLAYGROUND = 'playground';
const PAGE = '/requests';

/**
 * A link to a request contains its organization in `org`, so that the request also opens while another organization
 * is selected.
 */
export function Requests(): ReactNode {
  const { id, name } = useOrganization();
  const { selectOrganization } = useSession();
  const { organizations } = useMe();
  const [search, setSearch] = useSearchParams();
  const wanted = search.get('org');
  const isOther = wanted !== null && wanted !== id;
  const isKnown = isOther && organizations.some((one) => one.id === wanted);
  useEffect(() => {
    if (wanted === null || (isOther && !isKnown)) return;
    if (isOther) selectOrganization(wanted);
    else
      setSearch(
        (before) => {
          before.delete('org'); // the user may select another organization now
          return before;
        },
        { replace: true },
      );
  }, [wanted, isOther, isKnown, selectOrganization, setSearch]);
  if (isKnown) return null;
  if (isOther)
    return (
      <>
        <PageHeader title="Requests" />
        <Panel>
          <EmptyState
            icon="requests"
            title="This request belongs to another organization"
            action={<LinkButton href={PAGE}>Open the requests of {name}</LinkButton>}
          >
            You are not a member of the organization that this link names.
          </EmptyState>
        </Panel>
      </>
    );
  return <RequestsPage />;
}

function RequestsPage(): ReactNode {
  const { id, path, may } = useOrganization();
  const view = useRequestView(PAGE);
  const { list, refresh } = useRequests(['organization', id, 'requests'], `${path}/requests`, view);
  const models = useModels();
  const keys = useQuery({
    queryKey: ['organization', id, 'api-keys', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<ApiKeyObject>>(`${path}/api-keys`, { limit: 100 }, signal),
  });
  const organization = useQuery({
    queryKey: ['organization', id, 'settings'],
    queryFn: ({ signal }) => api.get<OrganizationObject>(path, {}, signal),
  });
  const accounts = useServiceAccounts();
  const choices = useMemo(
    () => [
      { value: PLAYGROUND, label: 'Playground' },
      ...(keys.data?.data ?? []).map((key) => {
        const account = accounts.data?.find(({ id: owner }) => owner === key.created_by)?.name;
        return {
          value: key.id,
          label: `${key.name} (${keyHint(key)})${account === undefined ? '' : ` of ${account}`}`,
        };
      }),
    ],
    [keys.data, accounts.data],
  );
  const nameOf = (key: string | null): string =>
    choices.find(({ value }) => value === key)?.label ?? key ?? 'No known key';
  const why =
    organization.data?.request_text !== true
      ? 'Prompts and responses are not stored. An admin can enable this under Settings.'
      : may('admin')
        ? 'No text was stored for this request.'
        : 'Only admins can see prompts and responses.';
  return (
    <>
      <PageHeader
        title="Requests"
        actions={<RequestActions view={view} path={`${path}/requests`} onRefresh={refresh} />}
      >
        Every request of the last few days, newest first, including refused ones.{' '}
        {organization.data?.request_text === true
          ? 'Prompts and responses are stored. Admins can read them.'
          : 'Prompts and responses are not stored.'}
      </PageHeader>
      <RequestFilters view={view} keys={choices} models={models.data?.map((model) => model.id) ?? []} />
      <Panel flush>
        <RequestList
          list={list}
          linkTo={view.linkTo}
          live={view.live}
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
            view.isFiltered ? (
              <EmptyState
                icon="requests"
                title="No matching requests"
                action={<Button onClick={view.clear}>Clear filters</Button>}
              >
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
      {view.opened !== null && (
        <RequestDialog
          id={view.opened}
          path={`${path}/requests`}
          link={`${PAGE}?${new URLSearchParams({ org: id, request: view.opened })}`}
          keyName={nameOf}
          onClose={view.close}
        >
          {(detail) => <RequestText detail={detail} why={why} />}
        </RequestDialog>
      )}
    </>
  );
}
