// Usage over time: requests and tokens by model, API key or endpoint.
import { useQuery } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { MemberObject } from '../../../../shared/wire/organizations.js';
import { NO_MEMBER, PLAYGROUND_MEMBER } from '../../../../shared/wire/usage.js';
import type { PriceTable, UsageBucket, UsageGroup, UsageRowObject } from '../../../../shared/wire/usage.js';
import { API, api, withQuery } from '../api.js';
import { LinkButton, PlainLinkButton } from '../components/button.js';
import { Select, TextField } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded, Skeleton } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { keyHint } from '../format.js';
import { useModels, useServiceAccounts } from '../queries.js';
import { useOrganization } from '../session.js';
import {
  byGroup,
  customRange,
  groupOf,
  HOURLY_DAYS,
  loadUsage,
  RANGES,
  rangeOf,
  totalOf,
  UNKNOWN_MODEL,
} from '../usage-data.js';
import type { Range, UsageAsk } from '../usage-data.js';
import { UsageChart } from '../usage/usage-chart.js';
import { UsageStats } from '../usage/usage-stats.js';
import { UsageTable } from '../usage/usage-table.js';
import { LatencyPanel } from './latency-panel.js';
import { BudgetPanel } from './budget-panel.js';

const GROUPS: readonly { value: UsageGroup; label: string; heading: string }[] = [
  { value: 'model', label: 'By model', heading: 'Model' },
  { value: 'api_key', label: 'By key', heading: 'API key' },
  { value: 'member', label: 'By member', heading: 'Member' },
  { value: 'endpoint', label: 'By endpoint', heading: 'Endpoint' },
];
export function Usage(): ReactNode {
  const { id, path } = useOrganization();
  const [range, setRange] = useState<Range | 'custom'>('7d');
  const [span, setSpan] = useState({
    first: new Date(Date.now() - 6 * 86_400_000).toISOString().slice(0, 10),
    last: new Date().toISOString().slice(0, 10),
  });
  const [model, setModel] = useState('');
  const [key, setKey] = useState('');
  const [chosenBucket, setBucket] = useState<UsageBucket>('day');
  const [group, setGroup] = useState<UsageGroup>('model');
  const custom = customRange(span.first, span.last);
  const days = range === 'custom' ? (custom?.days ?? 7) : (RANGES.find(({ value }) => value === range)?.days ?? 7);
  const isWrong = range === 'custom' && custom === null;
  const askNow = (): UsageAsk => ({
    ...(range === 'custom' && custom !== null
      ? { from: custom.from, to: custom.to }
      : rangeOf(range === 'custom' ? '7d' : range)),
    bucket,
    group_by: group,
    ...(model === '' ? {} : { models: model }),
    ...(key === '' ? {} : { api_keys: key }),
  });
  const bucket: UsageBucket = days === 1 ? 'hour' : days > HOURLY_DAYS ? 'day' : chosenBucket;
  const usage = useQuery({
    queryKey: ['organization', id, 'usage', range, range === 'custom' ? span : null, bucket, group, model, key],
    queryFn: async ({ signal }) => {
      const ask = askNow();
      return { ask, rows: await loadUsage(path, ask, signal) };
    },
    placeholderData: (old) => old,
    enabled: !isWrong,
    refetchInterval: 60_000,
  });
  const keys = useQuery({
    queryKey: ['organization', id, 'api-keys', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<ApiKeyObject>>(`${path}/api-keys`, { limit: 100 }, signal),
  });
  const models = useModels();
  const prices = useQuery({
    queryKey: ['organization', id, 'prices'],
    queryFn: ({ signal }) => api.get<PriceTable>(`${path}/prices`, {}, signal),
  });
  const members = useQuery({
    queryKey: ['organization', id, 'members', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<MemberObject>>(`${path}/members`, { limit: 100 }, signal),
    enabled: group === 'member',
  });
  const accounts = useServiceAccounts();
  const nameOf = useMemo(() => {
    const names = new Map<string, string>([
      [UNKNOWN_MODEL, 'Unknown models'],
      [PLAYGROUND_MEMBER, 'Playground'],
    ]);
    for (const one of keys.data?.data ?? []) names.set(one.id, `${one.name} (${keyHint(one)})`);
    if (group === 'member') {
      names.set(NO_MEMBER, 'No member');
      for (const one of members.data?.data ?? []) names.set(one.user_id, one.name || one.email);
      for (const one of accounts.data ?? []) names.set(one.id, `${one.name} (service account)`);
    }
    const former = group === 'member' && members.data?.has_more === false;
    return (name: string): string =>
      names.get(name) ?? (name.startsWith('svc_') ? 'Deleted service account' : former ? 'Former member' : name);
  }, [keys.data, members.data, accounts.data, group]);
  const csv = `${API}${withQuery(`${path}/usage.csv`, { ...(usage.data?.ask ?? askNow()) })}`;
  return (
    <>
      <PageHeader
        title="Usage"
        actions={
          <PlainLinkButton href={csv} download="usage.csv">
            <Icon name="download" /> CSV
          </PlainLinkButton>
        }
      >
        Requests, tokens and cost. These statistics contain no prompts or responses.
      </PageHeader>
      <div className="toolbar">
        <Segmented
          label="Range"
          value={range}
          onChange={setRange}
          options={[
            ...RANGES.map(({ value, label }) => ({ value, label })),
            { value: 'custom' as const, label: 'Custom' },
          ]}
        />
        <Segmented
          label="Buckets"
          value={bucket}
          onChange={setBucket}
          options={[
            ...(days <= HOURLY_DAYS ? [{ value: 'hour' as const, label: 'Hours' }] : []),
            ...(days > 1 ? [{ value: 'day' as const, label: 'Days' }] : []),
          ]}
        />
        <Segmented
          label="Groups"
          value={group}
          onChange={setGroup}
          options={GROUPS.map(({ value, label }) => ({ value, label }))}
        />
      </div>
      <div className="usage-filters">
        {range === 'custom' && (
          <>
            <TextField
              type="date"
              label="First day"
              value={span.first}
              onChange={(event) => setSpan({ ...span, first: event.target.value })}
              error={isWrong ? 'Must not be after the last day' : null}
            />
            <TextField
              type="date"
              label="Last day"
              value={span.last}
              onChange={(event) => setSpan({ ...span, last: event.target.value })}
            />
          </>
        )}
        <Select
          label="Model"
          value={model}
          onChange={(event) => setModel(event.target.value)}
          options={[
            { value: '', label: 'All models' },
            ...(models.data ?? []).map((one) => ({ value: one.id, label: one.id })),
          ]}
        />
        <Select
          label="API key"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          options={[
            { value: '', label: 'All keys' },
            { value: 'playground', label: 'Playground' },
            ...(keys.data?.data ?? []).map((one) => ({ value: one.id, label: `${one.name} (${keyHint(one)})` })),
          ]}
        />
      </div>
      <Loaded
        query={usage}
        loading={
          <Panel>
            <Skeleton rows={8} height={24} />
          </Panel>
        }
      >
        {({ ask, rows }) =>
          rows.length === 0 ? (
            <Panel flush>
              <EmptyState
                icon="usage"
                title="No usage in this range"
                action={<LinkButton href="/keys">API keys</LinkButton>}
              >
                Requests with your keys appear here within a minute.
              </EmptyState>
            </Panel>
          ) : (
            <UsageView ask={ask} rows={rows} nameOf={nameOf} currency={prices.data?.currency ?? ''} />
          )
        }
      </Loaded>
      {!isWrong && usage.data !== undefined && usage.data.rows.length > 0 && (
        <LatencyPanel ask={usage.data.ask} nameOf={nameOf} />
      )}
      <BudgetPanel />
    </>
  );
}

function UsageView({
  ask,
  rows,
  nameOf,
  currency,
}: {
  ask: UsageAsk;
  rows: readonly UsageRowObject[];
  nameOf: (name: string) => string;
  currency: string;
}): ReactNode {
  const group = ask.group_by;
  const total = useMemo(() => totalOf(rows), [rows]);
  const ofRow = useCallback((row: UsageRowObject): string => groupOf(row, group), [group]);
  const groups = useMemo(() => byGroup(rows, ofRow), [rows, ofRow]);
  const heading = GROUPS.find(({ value }) => value === group)?.heading ?? '';
  return (
    <>
      <Panel>
        <UsageStats total={total} currency={currency} />
      </Panel>
      <UsageChart span={ask} rows={rows} groupOf={ofRow} nameOf={nameOf} currency={currency} />
      <Panel
        title={`By ${heading === 'API key' ? heading : heading.toLowerCase()}`}
        lead={group === 'member' ? 'Usage is attributed to the member who created the API key.' : undefined}
        flush
      >
        <UsageTable
          heading={heading}
          groups={groups}
          nameOf={nameOf}
          explain={(name) => EXPLAINED[name]}
          currency={currency}
        />
      </Panel>
    </>
  );
}

/** Descriptions of groups that are not a model, key or member of this organization. */
const EXPLAINED: Readonly<Record<string, string>> = {
  [UNKNOWN_MODEL]: 'Requests for models that this server does not have',
  [NO_MEMBER]: 'Keys created on the command line, and deleted keys',
  [PLAYGROUND_MEMBER]: "All members' requests in the playground",
};
