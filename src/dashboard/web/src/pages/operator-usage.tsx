// All organizations' usage by model, over a number of days.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { OperatorOrganization } from '../../../../shared/wire/organizations.js';
import type { UsageRowObject } from '../../../../shared/wire/usage.js';
import { api } from '../api.js';
import { Code, PageHeader, Panel, Stat, Stats } from '../components/page.js';
import { EmptyState, Loaded } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { Table } from '../components/table.js';
import { count, percent, short } from '../format.js';
import { PricePanel, usePrices } from '../operator/price-panel.js';
import { money } from '../usage-data.js';

type Total = Omit<UsageRowObject, 'bucket_start' | 'api_key_id' | 'endpoint'> & { organization_id: string };
interface Totals {
  rows: (Total & { name: string })[];
  complete: boolean;
}

type Days = '1' | '7' | '30' | '365';
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
const sum = (rows: readonly Total[], of: (row: Total) => number): number =>
  rows.reduce((total, row) => total + of(row), 0);

export function OperatorUsage(): ReactNode {
  const [days, setDays] = useState<Days>('30');
  const query = useQuery({
    queryKey: ['operator', 'usage', days],
    queryFn: ({ signal }) => loadTotals(Number(days), signal),
  });
  const prices = usePrices();
  return (
    <>
      <PageHeader
        title="Total usage"
        actions={
          <Segmented<Days>
            label="Period"
            value={days}
            onChange={setDays}
            options={[
              { value: '1', label: '24 hours' },
              { value: '7', label: '7 days' },
              { value: '30', label: '30 days' },
              { value: '365', label: '1 year' },
            ]}
          />
        }
      >
        Usage of all organizations by model, highest first.
      </PageHeader>
      <Loaded query={query}>
        {({ rows, complete }) => {
          const input = sum(rows, (row) => row.input_tokens);
          return rows.length === 0 ? (
            <Panel>
              <EmptyState icon="usage" title="No usage in this period">
                Totals appear here after the first requests complete.
              </EmptyState>
            </Panel>
          ) : (
            <>
              <Panel>
                <Stats>
                  <Stat
                    label="Requests"
                    value={short(sum(rows, ({ requests }) => requests))}
                    note={`${count(sum(rows, (row) => row.rate_limited))} rate-limited`}
                  />
                  <Stat
                    label="Input tokens"
                    value={short(input)}
                    note={`${percent(input === 0 ? null : sum(rows, (row) => row.cached_tokens) / input)} cached`}
                  />
                  <Stat
                    label="Output tokens"
                    value={short(sum(rows, (row) => row.output_tokens))}
                    note={`${short(sum(rows, (row) => row.reasoning_tokens))} reasoning`}
                  />
                  <Stat label="Organizations" value={count(new Set(rows.map((row) => row.organization_id)).size)} />
                </Stats>
              </Panel>
              <Panel flush>
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
                    { key: 'model', header: 'Model', cell: ({ model }) => <Code>{model ?? '–'}</Code> },
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
                    ...(rows.some(({ cost }) => cost !== null)
                      ? [
                          {
                            key: 'cost',
                            header: 'Cost',
                            numeric: true,
                            cell: ({ cost }: Total) => money(cost, prices.data?.currency ?? ''),
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
