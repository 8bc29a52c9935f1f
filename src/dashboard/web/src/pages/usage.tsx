// Usage over time: requests and tokens by model, API key or endpoint.
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { PriceTable, UsageBucket, UsageGroup, UsageRowObject } from '../../../../shared/wire/usage.js';
import { API, api, withQuery } from '../api.js';
import { LinkButton, PlainLinkButton } from '../components/button.js';
import { Chart } from '../components/chart.js';
import { Select, TextField } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { PageHeader, Panel, Stat, Stats } from '../components/page.js';
import { EmptyState, Loaded, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import { Segmented } from '../components/tabs.js';
import { count, duration, keyHint, percent, short } from '../format.js';
import { useModels } from '../queries.js';
import { useOrganization } from '../session.js';
import {
  bucketsOf,
  byGroup,
  customRange,
  durationMs,
  firstTokenMs,
  HOURLY_DAYS,
  loadUsage,
  MEASURES,
  money,
  RANGES,
  rangeOf,
  seriesOf,
  tokensPerSecond,
  totalOf,
} from '../usage-data.js';
import type { Measure, Range, Sums, UsageAsk } from '../usage-data.js';
import { LatencyPanel } from './latency-panel.js';
import { BudgetPanel } from './budget-panel.js';

const GROUPS: readonly { value: UsageGroup; label: string; heading: string }[] = [
  { value: 'model', label: 'By model', heading: 'Model' },
  { value: 'api_key', label: 'By key', heading: 'API key' },
  { value: 'endpoint', label: 'By endpoint', heading: 'Endpoint' },
];
/** Number of groups with their own color. The rest are summed into one. */
const COLOURED = 7;

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
  const [measure, setMeasure] = useState<Measure>('tokens');
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
  const nameOf = useMemo(() => {
    const names = new Map(keys.data?.data.map((key) => [key.id, `${key.name} (${keyHint(key)})`]));
    return (name: string): string => (group === 'api_key' ? (names.get(name) ?? name) : name);
  }, [keys.data, group]);
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
        Completed requests and their tokens. These statistics contain no prompts or responses.
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
            <UsageView
              ask={ask}
              rows={rows}
              measure={measure}
              onMeasure={setMeasure}
              nameOf={nameOf}
              currency={prices.data?.currency ?? ''}
            />
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
  measure,
  onMeasure,
  nameOf,
  currency,
}: {
  ask: UsageAsk;
  rows: readonly UsageRowObject[];
  measure: Measure;
  onMeasure: (measure: Measure) => void;
  nameOf: (name: string) => string;
  currency: string;
}): ReactNode {
  const group = ask.group_by;
  const total = useMemo(() => totalOf(rows), [rows]);
  const groups = useMemo(() => byGroup(rows, group), [rows, group]);
  const { times, series } = useMemo(() => {
    const names =
      groups.length <= COLOURED
        ? groups.map(({ name }) => name)
        : [...groups.slice(0, COLOURED).map(({ name }) => name), 'other'];
    const line = bucketsOf(ask);
    const values = seriesOf(rows, line, group, names, measure);
    return { times: line, series: names.map((name, i) => ({ label: nameOf(name), values: values[i] ?? [] })) };
  }, [rows, groups, group, ask, measure, nameOf]);
  const label = MEASURES.find(({ value }) => value === measure)?.label ?? '';
  const heading = GROUPS.find(({ value }) => value === group)?.heading ?? '';
  return (
    <>
      <Panel>
        <Stats>
          <Stat label="Requests" value={short(total.requests)} />
          <Stat label="Input tokens" value={short(total.input_tokens)} note={`${percent(cachedShare(total))} cached`} />
          <Stat
            label="Output tokens"
            value={short(total.output_tokens)}
            note={total.reasoning_tokens > 0 ? `${short(total.reasoning_tokens)} reasoning` : undefined}
          />
          {total.cost !== null && <Stat label="Cost" value={money(total.cost, currency)} note="at today's prices" />}
          {total.answered > 0 && (
            <Stat
              label="First token"
              value={duration(firstTokenMs(total) ?? 0)}
              note={`mean; ${duration(durationMs(total) ?? 0)} total duration`}
            />
          )}
          {tokensPerSecond(total) !== null && (
            <Stat label="Speed" value={short(Math.round(tokensPerSecond(total) ?? 0))} note="tokens/s per response" />
          )}
          <Stat
            label="Errors"
            value={short(total.errors)}
            note={total.rate_limited > 0 ? `${short(total.rate_limited)} rate-limited` : undefined}
          />
        </Stats>
      </Panel>
      <Panel
        title="Over time"
        lead={ask.bucket === 'day' ? 'Days are in UTC.' : undefined}
        actions={
          <Select
            label="Measure"
            hideLabel
            value={measure}
            onChange={(event) => onMeasure(event.target.value as Measure)}
            options={MEASURES.filter(({ value }) => value !== 'cost' || total.cost !== null).map(
              ({ value, label: text }) => ({ value, label: text }),
            )}
          />
        }
      >
        <Chart
          title={`${label} over time`}
          kind="bars"
          times={times}
          series={series}
          utc={ask.bucket === 'day'}
          format={measure === 'cost' ? (value) => money(value, currency) : short}
        />
      </Panel>
      <Panel title={`By ${heading === 'API key' ? heading : heading.toLowerCase()}`} flush>
        <Table
          caption={`Usage by ${heading}`}
          rows={groups}
          rowKey={({ name }) => name}
          columns={[
            {
              key: 'name',
              header: heading,
              heading: true,
              cell: ({ name }) => <span className="cell-main">{nameOf(name)}</span>,
            },
            { key: 'requests', header: 'Requests', numeric: true, cell: ({ sums }) => count(sums.requests) },
            { key: 'input', header: 'Input tokens', numeric: true, cell: ({ sums }) => count(sums.input_tokens) },
            { key: 'cached', header: 'Cached', numeric: true, cell: ({ sums }) => percent(cachedShare(sums)) },
            { key: 'output', header: 'Output tokens', numeric: true, cell: ({ sums }) => count(sums.output_tokens) },
            {
              key: 'first',
              header: 'First token',
              numeric: true,
              cell: ({ sums }) => (sums.answered === 0 ? '–' : duration(firstTokenMs(sums) ?? 0)),
            },
            ...(total.cost === null
              ? []
              : [
                  {
                    key: 'cost',
                    header: 'Cost',
                    numeric: true,
                    cell: ({ sums }: { sums: Sums }) => money(sums.cost, currency),
                  },
                ]),
            { key: 'errors', header: 'Errors', numeric: true, cell: ({ sums }) => count(sums.errors) },
            { key: 'limited', header: 'Rate-limited', numeric: true, cell: ({ sums }) => count(sums.rate_limited) },
          ]}
        />
      </Panel>
    </>
  );
}

const cachedShare = (sums: Sums): number | null =>
  sums.input_tokens === 0 ? null : sums.cached_tokens / sums.input_tokens;
