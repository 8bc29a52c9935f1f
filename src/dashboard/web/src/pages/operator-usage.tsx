// All organizations' usage over a number of days: totals, a chart, and a table by organization and model.
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { OperatorOrganization } from '../../../../shared/wire/organizations.js';
import type { UsageBucket, UsageHistory, UsageHistoryRow, UsageRowObject } from '../../../../shared/wire/usage.js';
import { API, api, withQuery } from '../api.js';
import { PlainLinkButton } from '../components/button.js';
import { Icon } from '../components/icon.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { Table } from '../components/table.js';
import { count, percent, short } from '../format.js';
import { PricePanel, usePrices } from '../operator/price-panel.js';
import { DAYS, type Days, money, totalOf, UNKNOWN_MODEL } from '../usage-data.js';
import { UsageChart } from '../usage/usage-chart.js';
import { UsageStats } from '../usage/usage-stats.js';

type Total = Omit<UsageRowObject, 'bucket_start' | 'api_key_id' | 'endpoint' | 'member_id'> & {
  organization_id: string;
};
interface Totals {
  rows: (Total & { name: string })[];
  complete: boolean;
}

const PAGES = 20;
const PAGE_SIZE = 100;

// Usage and names are fetched together, page by page, because both lists contain the same organizations in the same
// order.
async function loadTotals(days: number, signal: AbortSignal): Promise<Totals> {
  const from = new Date(Date.now() - days * 86_400_000).toISOString();
  const rows: Totals['rows'] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES; page++) {
    const query: { limit: number; after: string | null } = { limit: PAGE_SIZE, after };
    const [usage, organizations]: [ListPage<Total>, ListPage<OperatorOrganization>] = await Promise.all([
      api.get<ListPage<Total>>('/operator/usage', { ...query, from }, signal),
      api.get<ListPage<OperatorOrganization>>('/operator/organizations', query, signal),
    ]);
    const names = new Map(organizations.data.map(({ id, name }) => [id, name]));
    rows.push(...usage.data.map((row) => ({ ...row, name: names.get(row.organization_id) ?? row.organization_id })));
    if (!usage.has_more || usage.next === null) return { rows: sorted(rows), complete: true };
    after = usage.next;
  }
  return { rows: sorted(rows), complete: false };
}

const tokensOf = (row: Total): number => row.input_tokens + row.output_tokens;
const sorted = (rows: Totals['rows']): Totals['rows'] => rows.sort((a, b) => tokensOf(b) - tokensOf(a));

type HistoryGroup = 'model' | 'organization';
/** Shorter ranges are shown by the hour. */
const hourly = (days: number): boolean => days <= 1;

interface History {
  readonly span: { readonly from: string; readonly to: string; readonly bucket: UsageBucket };
  readonly group: HistoryGroup;
  readonly rows: UsageHistoryRow[];
}

async function loadHistory(days: number, group: HistoryGroup, signal: AbortSignal): Promise<History> {
  const now = Math.ceil(Date.now() / 60_000) * 60_000;
  const span = {
    from: new Date(now - days * 86_400_000).toISOString(),
    to: new Date(now).toISOString(),
    bucket: hourly(days) ? ('hour' as const) : ('day' as const),
  };
  const { data } = await api.get<UsageHistory>('/operator/usage/history', { ...span, group_by: group }, signal);
  return { span, group, rows: data };
}

const organizationOf = (row: UsageHistoryRow): string => row.organization_id ?? '';
const modelOf = (row: UsageHistoryRow): string => row.model ?? UNKNOWN_MODEL;

export function OperatorUsage(): ReactNode {
  const [days, setDays] = useState<Days>('30');
  const [group, setGroup] = useState<HistoryGroup>('model');
  const query = useQuery({
    queryKey: ['operator', 'usage', days],
    queryFn: ({ signal }) => loadTotals(Number(days), signal),
  });
  const history = useQuery({
    queryKey: ['operator', 'usage', 'history', days, group],
    queryFn: ({ signal }) => loadHistory(Number(days), group, signal),
    placeholderData: (old) => old,
  });
  const prices = usePrices();
  const nameOf = useMemo(() => {
    const names = new Map(query.data?.rows.map((row) => [row.organization_id, row.name]));
    names.set(UNKNOWN_MODEL, 'Unknown models');
    return (name: string): string => names.get(name) ?? name;
  }, [query.data]);
  const csv = withQuery(`${API}/operator/usage.csv`, {
    from: new Date(Math.floor(Date.now() / 60_000) * 60_000 - Number(days) * 86_400_000).toISOString(),
    bucket: hourly(Number(days)) ? 'hour' : 'day',
  });
  return (
    <>
      <PageHeader
        title="Total usage"
        actions={
          <PlainLinkButton href={csv} download="total-usage.csv">
            <Icon name="download" /> CSV
          </PlainLinkButton>
        }
      >
        Usage of all organizations.
      </PageHeader>
      <div className="toolbar">
        <Segmented<Days> label="Period" value={days} onChange={setDays} options={DAYS} />
        <Segmented<HistoryGroup>
          label="Groups"
          value={group}
          onChange={setGroup}
          options={[
            { value: 'model', label: 'By model' },
            { value: 'organization', label: 'By organization' },
          ]}
        />
      </div>
      <Loaded query={query}>
        {({ rows, complete }) => {
          return rows.length === 0 ? (
            <Panel>
              <EmptyState icon="usage" title="No usage in this period">
                Totals appear here after the first requests complete.
              </EmptyState>
            </Panel>
          ) : (
            <>
              <Panel>
                <UsageStats total={totalOf(rows)} currency={prices.data?.currency ?? ''} />
              </Panel>
              {history.data !== undefined && (
                <UsageChart
                  span={history.data.span}
                  rows={history.data.rows}
                  groupOf={history.data.group === 'model' ? modelOf : organizationOf}
                  nameOf={nameOf}
                  currency={prices.data?.currency ?? ''}
                />
              )}
              <Panel title="By organization and model" flush>
                <Table
                  caption="Usage by organization and model"
                  rows={rows}
                  rowKey={(row) => `${row.organization_id} ${row.model ?? ''}`}
                  columns={[
                    {
                      key: 'organization',
                      header: 'Organization',
                      heading: true,
                      cell: (row) => (
                        <Link className="cell-main" href={`/operator/organizations?org=${row.organization_id}`}>
                          {row.name}
                        </Link>
                      ),
                    },
                    {
                      key: 'model',
                      header: 'Model',
                      cell: ({ model }) => (model === null ? <span className="muted">Unknown models</span> : model),
                    },
                    { key: 'requests', header: 'Requests', numeric: true, cell: ({ requests }) => count(requests) },
                    { key: 'limited', header: 'Rate-limited', numeric: true, cell: (row) => count(row.rate_limited) },
                    { key: 'errors', header: 'Errors', numeric: true, cell: ({ errors }) => count(errors) },
                    { key: 'input', header: 'Input', numeric: true, cell: (row) => short(row.input_tokens) },
                    {
                      key: 'cached',
                      header: 'Cached',
                      numeric: true,
                      cell: (row) => percent(row.input_tokens === 0 ? null : row.cached_tokens / row.input_tokens),
                    },
                    { key: 'output', header: 'Output', numeric: true, cell: (row) => short(row.output_tokens) },
                    {
                      key: 'reasoning',
                      header: 'Reasoning',
                      numeric: true,
                      cell: (row) => short(row.reasoning_tokens),
                    },
                    ...(rows.some(({ cost }) => cost !== null)
                      ? [
                          {
                            key: 'cost',
                            header: 'Cost',
                            numeric: true,
                            cell: ({ cost }: Total) => money(cost, prices.data?.currency ?? '', 'cell'),
                          },
                        ]
                      : []),
                  ]}
                />
                {!complete && (
                  <p className="hint panel-pad">
                    Only the first {count(PAGES * PAGE_SIZE)} organizations are included here. The operator API returns
                    all of them.
                  </p>
                )}
              </Panel>
            </>
          );
        }}
      </Loaded>
      <PricePanel prices={prices} />
    </>
  );
}
