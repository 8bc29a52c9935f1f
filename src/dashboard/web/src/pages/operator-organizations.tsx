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
import { Code, PageHeader, Panel, Stat, Time } from '../components/page.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { Tabs } from '../components/tabs.js';
import { useToast } from '../components/toasts.js';
import { count, short } from '../format.js';
import { OrganizationLimits } from '../operator/organization-limits.js';
import {
  OrganizationAudit,
  OrganizationBudget,
  OrganizationKeys,
  OrganizationMembers,
  OrganizationRequests,
  OrganizationServiceAccounts,
  OrganizationUsage,
} from '../operator/organization-parts.js';
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

const TABS = ['overview', 'members', 'keys', 'requests', 'budget', 'limits', 'audit'] as const;
type TabName = (typeof TABS)[number];

/** The organization's key figures, each with a link to the tab with the details. */
function Summary({
  organization,
  onOpen,
}: {
  organization: OperatorOrganization;
  onOpen: (tab: TabName) => void;
}): ReactNode {
  const { members, active_keys: keys, month_tokens: tokens, monthly_token_cap: cap, overrides } = organization;
  const custom = Object.keys(overrides).length;
  return (
    <>
      <Panel>
        <dl className="stats eight">
          <Stat label="Members" value={count(members)} note={<More tab="members" onOpen={onOpen} />} />
          <Stat label="Active keys" value={count(keys)} note={<More tab="keys" onOpen={onOpen} />} />
          <Stat
            label="Tokens this month"
            value={short(tokens)}
            note={cap === null ? 'no monthly cap' : `of ${count(cap)}`}
          />
          <Stat
            label="Custom limits"
            value={custom === 0 ? 'none' : count(custom)}
            note={<More tab="limits" onOpen={onOpen} />}
          />
        </dl>
      </Panel>
      <OrganizationUsage id={organization.id} />
    </>
  );
}

const MORE: Partial<Record<TabName, string>> = { members: 'Show members', keys: 'Show keys', limits: 'Show limits' };

function More({ tab, onOpen }: { tab: TabName; onOpen: (tab: TabName) => void }): ReactNode {
  return (
    <button type="button" className="link-button" onClick={() => onOpen(tab)}>
      {MORE[tab]}
    </button>
  );
}

function OneOrganization({ id }: { id: string }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asks, setAsks] = useState(false);
  const [clears, setClears] = useState(false);
  const [search, setSearch] = useSearchParams();
  const asked = search.get('tab');
  const tab = TABS.find((one) => one === asked) ?? 'overview';
  // Each tab has its own filters, so switching tabs clears them.
  const open = (next: TabName): void =>
    setSearch(next === 'overview' ? { org: id } : { org: id, tab: next }, { replace: true });
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
              <span className="row tight">
                <StatusBadge status={organization.status} />
                <Code>{organization.id}</Code>
              </span>
            </PageHeader>
            {!active && (
              <Notice tone="danger">
                Suspended: every request made with its keys returns 403. Its members can view it but not use it.
              </Notice>
            )}
            {organization.dashboard_addresses.length > 0 && (
              <Notice>
                Its dashboard pages can be opened only from {organization.dashboard_addresses.join(', ')}.{' '}
                <button type="button" className="link-button" onClick={() => setClears(true)}>
                  Allow all addresses
                </button>
              </Notice>
            )}
            <Tabs<TabName>
              label="Organization"
              value={tab}
              onChange={open}
              tabs={[
                {
                  value: 'overview',
                  label: 'Overview',
                  content: <Summary organization={organization} onOpen={open} />,
                },
                {
                  value: 'members',
                  label: 'Members',
                  content: (
                    <>
                      <OrganizationMembers id={id} />
                      <OrganizationServiceAccounts id={id} />
                    </>
                  ),
                },
                { value: 'keys', label: 'API keys', content: <OrganizationKeys id={id} /> },
                {
                  value: 'requests',
                  label: 'Requests',
                  content: <OrganizationRequests id={id} name={organization.name} />,
                },
                { value: 'budget', label: 'Budget', content: <OrganizationBudget id={id} /> },
                {
                  value: 'limits',
                  label: 'Limits',
                  content: <OrganizationLimits organization={organization} onChange={change} />,
                },
                { value: 'audit', label: 'Audit log', content: <OrganizationAudit id={id} /> },
              ]}
            />
            {clears && (
              <ConfirmDialog
                title={`Allow all addresses for ${organization.name}?`}
                confirm="Allow all addresses"
                onClose={() => setClears(false)}
                onConfirm={async () => {
                  await change({ dashboard_addresses: [] });
                  toast(`${organization.name} can be opened from all addresses`);
                }}
              >
                <p>Its members can then open it on the dashboard from any address. An admin can restrict it again.</p>
              </ConfirmDialog>
            )}
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
