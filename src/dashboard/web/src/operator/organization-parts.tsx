// The tabs of an organization's page for operators: members, API keys, usage, requests, budget, audit log.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import type { MemberObject, ServiceAccountObject } from '../../../../shared/wire/organizations.js';
import type { BudgetObject, UsageHistory, UsageHistoryRow } from '../../../../shared/wire/usage.js';
import { API, api, messageOf, withQuery } from '../api.js';
import { AuditDownload, AuditList, useAuditView } from '../audit/audit-list.js';
import { Badge } from '../components/badge.js';
import { Button, PlainLinkButton } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Meter, Panel, Time } from '../components/page.js';
import { EmptyState, Loaded, Notice, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import { Segmented } from '../components/tabs.js';
import { useToast } from '../components/toasts.js';
import { keyHint } from '../format.js';
import { KeyScope, KeyStatus } from '../pages/keys.js';
import { RequestDialog } from '../requests/request-dialog.js';
import { useRequestView } from '../requests/request-filter.js';
import { RequestActions, RequestFilters } from '../requests/request-filters.js';
import { RequestList } from '../requests/request-table.js';
import { useRequests } from '../requests/use-requests.js';
import { roleLabel } from '../roles.js';
import { byGroup, DAYS, type Days, money, totalOf, UNKNOWN_MODEL } from '../usage-data.js';
import { UsageChart } from '../usage/usage-chart.js';
import { UsageStats } from '../usage/usage-stats.js';
import { UsageTable } from '../usage/usage-table.js';

interface Part {
  id: string;
}
const pathOf = (id: string): string => `/operator/organizations/${encodeURIComponent(id)}`;
const keyOf = (id: string, part: string): readonly unknown[] => ['operator', 'organizations', 'one', id, part];

export function OrganizationMembers({ id }: Part): ReactNode {
  const list = useList<MemberObject>(keyOf(id, 'members'), `${pathOf(id)}/members`);
  return (
    <Panel flush>
      <ListView list={list} empty={<EmptyState icon="members" title="No members" />}>
        {(rows) => (
          <Table
            caption="Members"
            rows={rows}
            rowKey={(member) => member.user_id}
            columns={[
              {
                key: 'name',
                header: 'Name',
                heading: true,
                cell: ({ name, email }) => (
                  <>
                    <span className="cell-main">{name || email}</span>
                    {name !== '' && <span className="cell-sub">{email}</span>}
                  </>
                ),
              },
              { key: 'role', header: 'Role', cell: ({ role }) => roleLabel(role) },
              { key: 'joined', header: 'Joined', cell: (member) => <Time at={member.created_at} /> },
              { key: 'seen', header: 'Last sign-in', cell: (member) => <Time at={member.last_login_at} /> },
            ]}
          />
        )}
      </ListView>
    </Panel>
  );
}

export function OrganizationServiceAccounts({ id }: Part): ReactNode {
  const list = useList<ServiceAccountObject>(keyOf(id, 'service-accounts'), `${pathOf(id)}/service-accounts`);
  return (
    <Panel title="Service accounts" flush>
      <ListView list={list} empty={<EmptyState icon="keys" title="No service accounts" />}>
        {(rows) => (
          <Table
            caption="Service accounts"
            rows={rows}
            rowKey={(account) => account.id}
            rowClass={({ disabled }) => (disabled ? 'dim' : undefined)}
            columns={[
              {
                key: 'name',
                header: 'Name',
                heading: true,
                cell: ({ name, id: account }) => (
                  <>
                    <span className="cell-main">{name}</span>
                    <code className="cell-sub">{account}</code>
                  </>
                ),
              },
              { key: 'role', header: 'Role', cell: ({ role }) => <Badge>{role}</Badge> },
              { key: 'status', header: 'Status', cell: ({ disabled }) => (disabled ? 'Disabled' : 'Active') },
              { key: 'keys', header: 'Active keys', numeric: true, cell: (account) => account.active_keys },
              { key: 'created', header: 'Created', cell: (account) => <Time at={account.created_at} /> },
            ]}
          />
        )}
      </ListView>
    </Panel>
  );
}

export function OrganizationKeys({ id }: Part): ReactNode {
  const list = useList<ApiKeyObject>(keyOf(id, 'keys'), `${pathOf(id)}/api-keys`, {}, 100);
  const members = useQuery({
    queryKey: keyOf(id, 'first members'),
    queryFn: ({ signal }) => api.get<ListPage<MemberObject>>(`${pathOf(id)}/members`, { limit: 100 }, signal),
  });
  const accounts = useQuery({
    queryKey: keyOf(id, 'first service accounts'),
    queryFn: ({ signal }) =>
      api.get<ListPage<ServiceAccountObject>>(`${pathOf(id)}/service-accounts`, { limit: 100 }, signal),
  });
  const creatorOf = ({ created_by: by }: ApiKeyObject): string =>
    by === null
      ? 'Command line'
      : by.startsWith('svc_')
        ? (accounts.data?.data.find(({ id: account }) => account === by)?.name ?? 'Service account')
        : (members.data?.data.find(({ user_id: user }) => user === by)?.email ??
          (members.data?.has_more === false ? 'Former member' : '…'));
  return (
    <Panel flush>
      <ListView list={list} empty={<EmptyState icon="keys" title="No API keys" />}>
        {(rows) => (
          <Table
            caption="API keys"
            rows={rows}
            rowKey={(key) => key.id}
            rowClass={({ status }) => (status === 'active' ? undefined : 'dim')}
            columns={[
              {
                key: 'name',
                header: 'Name',
                heading: true,
                cell: (key) => (
                  <>
                    <span className="cell-main">{key.name}</span>
                    <code className="cell-sub">{keyHint(key)}</code>
                  </>
                ),
              },
              {
                key: 'status',
                header: 'Status',
                cell: (key) => (
                  <span className="row tight nowrap">
                    <KeyStatus apiKey={key} />
                    {key.temporary && <Badge>Temporary</Badge>}
                  </span>
                ),
              },
              { key: 'by', header: 'Created by', cell: creatorOf },
              { key: 'models', header: 'Models', cell: (key) => <KeyScope apiKey={key} /> },
              { key: 'used', header: 'Last used', cell: (key) => <Time at={key.last_used_at} /> },
              { key: 'expires', header: 'Expires', cell: (key) => <Time at={key.expires_at} /> },
            ]}
          />
        )}
      </ListView>
    </Panel>
  );
}

const modelOf = (row: UsageHistoryRow): string => row.model ?? UNKNOWN_MODEL;
const modelName = (model: string): string => (model === UNKNOWN_MODEL ? 'Unknown models' : model);

export function OrganizationUsage({ id }: Part): ReactNode {
  const [days, setDays] = useState<Days>('30');
  const bucket = days === '1' ? 'hour' : 'day';
  const query = useQuery({
    queryKey: [...keyOf(id, 'usage'), days],
    queryFn: async ({ signal }) => {
      const now = Math.ceil(Date.now() / 60_000) * 60_000;
      const span = {
        from: new Date(now - Number(days) * 86_400_000).toISOString(),
        to: new Date(now).toISOString(),
        bucket: bucket as 'hour' | 'day',
      };
      const [usage, budget] = await Promise.all([
        api.get<UsageHistory>('/operator/usage/history', { ...span, organization: id }, signal),
        api.get<BudgetObject>(`${pathOf(id)}/budget`, {}, signal),
      ]);
      return { span, rows: usage.data, currency: budget.currency };
    },
    placeholderData: (old) => old,
  });
  const groups = useMemo(() => byGroup(query.data?.rows ?? [], modelOf), [query.data]);
  const csv = withQuery(`${API}/operator/usage.csv`, { organization: id, bucket, from: query.data?.span.from });
  return (
    <>
      <div className="toolbar">
        <Segmented<Days> label="Period" value={days} onChange={setDays} options={DAYS} />
        <PlainLinkButton size="small" href={csv} download="usage.csv">
          <Icon name="download" /> CSV
        </PlainLinkButton>
      </div>
      <Loaded query={query} loading={<Skeleton rows={6} height={24} />}>
        {({ span, rows, currency }) =>
          rows.length === 0 ? (
            <Panel flush>
              <EmptyState icon="usage" title="No usage in this period" />
            </Panel>
          ) : (
            <>
              <Panel>
                <UsageStats total={totalOf(rows)} currency={currency} />
              </Panel>
              <UsageChart span={span} rows={rows} groupOf={modelOf} nameOf={modelName} currency={currency} />
              <Panel title="By model" flush>
                <UsageTable heading="Model" groups={groups} nameOf={modelName} currency={currency} />
              </Panel>
            </>
          )
        }
      </Loaded>
    </>
  );
}

/** `name`: the organization's name. */
export function OrganizationRequests({ id, name }: Part & { name: string }): ReactNode {
  const view = useRequestView('/operator/organizations');
  const fixed = { organization: id };
  const { list, refresh } = useRequests(keyOf(id, 'requests'), '/operator/requests', view, fixed);
  const models = useQuery({
    queryKey: ['operator', 'models'],
    queryFn: ({ signal }) => api.get<ListPage<DashboardModel>>('/operator/models', {}, signal),
  });
  const keys = useQuery({
    queryKey: keyOf(id, 'first keys'),
    queryFn: ({ signal }) => api.get<ListPage<ApiKeyObject>>(`${pathOf(id)}/api-keys`, { limit: 100 }, signal),
  });
  const choices = [
    { value: 'playground', label: 'Playground' },
    ...(keys.data?.data ?? []).map((key) => ({ value: key.id, label: `${key.name} (${keyHint(key)})` })),
  ];
  const keyName = (key: string | null): string => choices.find(({ value }) => value === key)?.label ?? key ?? '–';
  return (
    <>
      <div className="row">
        <RequestActions view={view} path="/operator/requests" fixed={fixed} onRefresh={refresh} />
      </div>
      <RequestFilters view={view} keys={choices} models={models.data?.data.map((model) => model.id) ?? []} />
      <Panel flush>
        <RequestList
          list={list}
          linkTo={view.linkTo}
          live={view.live}
          who={{
            key: 'key',
            header: 'API key',
            cell: ({ api_key_id: key }) => (
              <span className="clip request-who" title={keyName(key)}>
                {keys.data?.data.find((one) => one.id === key)?.name ?? keyName(key)}
              </span>
            ),
          }}
          empty={
            <EmptyState icon="requests" title="No requests">
              {view.isFiltered ? 'No requests match these filters.' : 'Requests appear here shortly after they end.'}
            </EmptyState>
          }
        />
      </Panel>
      {view.opened !== null && (
        <RequestDialog
          id={view.opened}
          path="/operator/requests"
          link={`/operator/requests?${new URLSearchParams({ request: view.opened })}`}
          keyName={keyName}
          organizationName={() => name}
          onClose={view.close}
        />
      )}
    </>
  );
}

export function OrganizationBudget({ id }: Part): ReactNode {
  const query = useQuery({
    queryKey: keyOf(id, 'budget'),
    queryFn: ({ signal }) => api.get<BudgetObject>(`${pathOf(id)}/budget`, {}, signal),
  });
  return (
    <Loaded query={query} loading={<Skeleton rows={3} height={24} />}>
      {(budget) => <BudgetForm key={String(budget.amount)} id={id} budget={budget} />}
    </Loaded>
  );
}

function BudgetForm({ id, budget }: Part & { budget: BudgetObject }): ReactNode {
  const { amount, spent, currency, month, mail, stops } = budget;
  const client = useQueryClient();
  const toast = useToast();
  const [text, setText] = useState(amount === null ? '' : String(amount));
  const [state, setState] = useState<{ busy: boolean; failure: string | null }>({ busy: false, failure: null });
  const value = text.trim() === '' ? null : Number(text.replaceAll(/[,_\s]/g, ''));
  const isWrong = value !== null && !(value > 0 && value <= 1e12);
  const save = (): void => {
    if (isWrong || state.busy) return;
    setState({ busy: true, failure: null });
    api.put<BudgetObject>(`${pathOf(id)}/budget`, { amount: value, mail }).then(
      (saved) => {
        client.setQueryData(keyOf(id, 'budget'), saved);
        setState({ busy: false, failure: null });
        toast('Budget saved');
      },
      (error: unknown) => setState({ busy: false, failure: messageOf(error) }),
    );
  };
  if (spent === null)
    return (
      <Panel flush>
        <EmptyState icon="usage" title="No prices are set">
          A budget requires model prices. Set them on the "Total usage" page.
        </EmptyState>
      </Panel>
    );
  const used = `${money(spent, currency)}${amount === null ? ' spent, no budget' : ` of ${money(amount, currency)}`}`;
  return (
    <Panel
      title={`Budget for ${month}`}
      lead={`Owners and admins are notified at 80% and 100%. ${stops ? 'Requests are refused when the budget is spent.' : 'The budget does not block requests.'} Months are in UTC.`}
    >
      <div className="stack">
        <div className="use">
          <div className="use-head">
            <span>{used}</span>
            {amount !== null && <span className="muted">{Math.round((100 * spent) / amount)}%</span>}
          </div>
          {amount !== null && <Meter label="Budget" value={spent} max={amount} text={used} />}
        </div>
        <form
          className="budget-form"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            save();
          }}
        >
          <TextField
            label={`Budget per month${currency === '' ? '' : ` in ${currency}`}`}
            inputMode="decimal"
            autoComplete="off"
            placeholder="no budget"
            value={text}
            error={isWrong ? 'Must be a number above 0.' : null}
            onChange={(event) => setText(event.target.value)}
          />
          <Button type="submit" variant="primary" busy={state.busy} disabled={isWrong || value === amount}>
            Save budget
          </Button>
        </form>
        {state.failure !== null && <Notice tone="danger">{state.failure}</Notice>}
      </div>
    </Panel>
  );
}

export function OrganizationAudit({ id }: Part): ReactNode {
  const view = useAuditView();
  const fixed = { organization: id };
  return (
    <>
      <div className="row">
        <AuditDownload view={view} path="/operator/audit-log" fixed={fixed} />
      </div>
      <AuditList
        view={view}
        queryKey={keyOf(id, 'audit')}
        path="/operator/audit-log"
        scope="organization"
        fixed={fixed}
      />
    </>
  );
}
