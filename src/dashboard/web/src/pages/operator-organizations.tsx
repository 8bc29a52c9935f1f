// All organizations with their usage, status and limits. `?org=` selects one to be shown in detail.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { OperatorOrganization, OperatorOrganizationPatch } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button, LinkButton } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { ListView, useList } from '../components/list.js';
import { Code, PageHeader, Panel, Stat, Stats, Time } from '../components/page.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { count, short } from '../format.js';
import { OrganizationLimits } from '../operator/organization-limits.js';
import '../styles/operator.css';

const LIST = ['operator', 'organizations'];

export function OperatorOrganizations(): ReactNode {
  const [search] = useSearchParams();
  const id = search.get('org');
  return id === null ? <Organizations /> : <OneOrganization key={id} id={id} />;
}

function StatusBadge({ status }: { status: OperatorOrganization['status'] }): ReactNode {
  return status === 'active' ? (
    <Badge tone="ok" dot>
      Active
    </Badge>
  ) : (
    <Badge tone="danger" dot>
      Suspended
    </Badge>
  );
}

function Organizations(): ReactNode {
  const list = useList<OperatorOrganization>(LIST, '/operator/organizations');
  return (
    <>
      <PageHeader title="Organizations">
        Every organization on this server. New limits and caps take effect immediately. If you suspend an organization,
        its requests are refused and running ones end.
      </PageHeader>
      <Panel flush>
        <ListView
          list={list}
          empty={
            <EmptyState icon="organizations" title="No organizations yet">
              An organization is created when a user signs up.
            </EmptyState>
          }
        >
          {(rows) => (
            <Table
              caption="Organizations"
              rows={rows}
              rowKey={({ id }) => id}
              rowClass={({ status }) => (status === 'suspended' ? 'dim' : undefined)}
              columns={[
                {
                  key: 'name',
                  header: 'Name',
                  heading: true,
                  cell: ({ id, name }) => (
                    <>
                      <Link className="cell-main" href={`/operator/organizations?org=${id}`}>
                        {name}
                      </Link>
                      <span className="cell-sub">
                        <Code>{id}</Code>
                      </span>
                    </>
                  ),
                },
                { key: 'status', header: 'Status', cell: ({ status }) => <StatusBadge status={status} /> },
                { key: 'members', header: 'Members', numeric: true, cell: ({ members }) => count(members) },
                { key: 'keys', header: 'Active keys', numeric: true, cell: (one) => count(one.active_keys) },
                {
                  key: 'tokens',
                  header: 'Tokens this month',
                  numeric: true,
                  cell: (one) => (
                    <>
                      {short(one.month_tokens)}
                      {one.monthly_token_cap !== null && (
                        <span className="muted"> of {short(one.monthly_token_cap)}</span>
                      )}
                    </>
                  ),
                },
                {
                  key: 'limits',
                  header: 'Custom limits',
                  cell: ({ overrides }) =>
                    Object.keys(overrides).length > 0 ? (
                      <Badge tone="accent">yes</Badge>
                    ) : (
                      <span className="muted">none</span>
                    ),
                },
                { key: 'created', header: 'Created', cell: (one) => <Time at={one.created_at} /> },
              ]}
            />
          )}
        </ListView>
      </Panel>
    </>
  );
}

function OneOrganization({ id }: { id: string }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asks, setAsks] = useState(false);
  const key = [...LIST, 'one', id];
  const query = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      api.get<OperatorOrganization>(`/operator/organizations/${encodeURIComponent(id)}`, {}, signal),
  });
  const change = async (patch: OperatorOrganizationPatch): Promise<OperatorOrganization> => {
    const changed = await api.patch<OperatorOrganization>(`/operator/organizations/${encodeURIComponent(id)}`, patch);
    client.setQueryData(key, changed);
    void client.invalidateQueries({ queryKey: LIST, exact: false, refetchType: 'none' });
    return changed;
  };
  return (
    <Loaded query={query} loading={<PageHeader title="Organization" />}>
      {(organization) => {
        const active = organization.status === 'active';
        const resume = async (): Promise<void> => {
          await change({ status: 'active' });
          toast(`${organization.name} is active again`);
        };
        return (
          <>
            <PageHeader
              title={organization.name}
              actions={
                <>
                  <LinkButton href="/operator/organizations" size="small">
                    All organizations
                  </LinkButton>
                  <Button size="small" variant={active ? 'danger' : 'primary'} onClick={() => setAsks(true)}>
                    {active ? 'Suspend' : 'Resume'}
                  </Button>
                </>
              }
            >
              <Code>{organization.id}</Code>
            </PageHeader>
            {!active && (
              <Notice tone="danger">
                Suspended: every request made with its keys returns 403. Its members can view it but not use it.
              </Notice>
            )}
            <Panel>
              <Stats>
                <Stat label="Status" value={<StatusBadge status={organization.status} />} />
                <Stat label="Members" value={count(organization.members)} />
                <Stat label="Active keys" value={count(organization.active_keys)} />
                <Stat
                  label="Tokens this month"
                  value={short(organization.month_tokens)}
                  {...(organization.monthly_token_cap === null
                    ? {}
                    : { note: `of ${count(organization.monthly_token_cap)}` })}
                />
              </Stats>
            </Panel>
            <OrganizationLimits organization={organization} onChange={change} />
            {asks && (
              <ConfirmDialog
                title={active ? `Suspend ${organization.name}?` : `Resume ${organization.name}?`}
                confirm={active ? 'Suspend' : 'Resume'}
                danger={active}
                onClose={() => setAsks(false)}
                onConfirm={
                  active
                    ? async () => {
                        await change({ status: 'suspended' });
                        toast(`${organization.name} is suspended`);
                      }
                    : resume
                }
              >
                <p>
                  {active
                    ? 'New requests are refused immediately, and running responses end with an error within seconds. Keys, members and stored responses are kept.'
                    : 'Its keys work again immediately, with the limits set below.'}
                </p>
              </ConfirmDialog>
            )}
          </>
        );
      }}
    </Loaded>
  );
}
