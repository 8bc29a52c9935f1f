// Latency percentiles (p50, p90, p99) of responses.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { UsageLatency } from '../../../../shared/wire/usage.js';
import { api } from '../api.js';
import { Panel } from '../components/page.js';
import { Loaded, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import type { Column } from '../components/table.js';
import { count, duration, percent } from '../format.js';
import { useOrganization } from '../session.js';
import type { UsageAsk } from '../usage-data.js';

type Row = UsageLatency['data'][number];

export function LatencyPanel({ ask, nameOf }: { ask: UsageAsk; nameOf: (name: string) => string }): ReactNode {
  const { id, path } = useOrganization();
  const group = ask.group_by === 'api_key' ? 'api_key' : 'model';
  const { from, to, bucket, models, api_keys: keys } = ask;
  const query = useQuery({
    queryKey: ['organization', id, 'latency', from, to, group, models, keys],
    queryFn: ({ signal }) =>
      api.get<UsageLatency>(
        `${path}/usage/latency`,
        { from, to, bucket, group_by: group, models, api_keys: keys },
        signal,
      ),
    placeholderData: (old) => old,
  });
  const column = (key: string, label: string, of: (row: Row) => number | undefined): Column<Row> => ({
    key,
    label,
    // Columns come in groups of three. The heading of the first one in each group names the measure.
    header: label.endsWith('p50') ? label : label.slice(-3),
    numeric: true,
    cell: (row) => {
      const ms = of(row);
      return ms === undefined ? '–' : duration(ms);
    },
  });
  return (
    <Loaded
      query={query}
      loading={
        <Panel title="Latency">
          <Skeleton />
        </Panel>
      }
    >
      {({ data, relative_error: error }) =>
        data.length === 0 ? null : (
          <Panel
            title="Latency"
            lead={`Time from a request's arrival to its first token and to the end of its response. Percentiles are estimates, accurate to within ${percent(error)}.`}
            flush
          >
            <Table
              caption="Latency"
              rows={data}
              rowKey={({ model, api_key_id: key }) => model ?? key ?? ''}
              columns={[
                {
                  key: 'name',
                  header: group === 'model' ? 'Model' : 'API key',
                  heading: true,
                  cell: ({ model, api_key_id: key }) => (
                    <span className="cell-main">{group === 'model' ? model : nameOf(key ?? '')}</span>
                  ),
                },
                { key: 'answered', header: 'Responses', numeric: true, cell: ({ answered }) => count(answered) },
                column('first50', 'First token p50', (row) => row.first_token_ms?.p50),
                column('first90', 'First token p90', (row) => row.first_token_ms?.p90),
                column('first99', 'First token p99', (row) => row.first_token_ms?.p99),
                column('total50', 'Duration p50', (row) => row.duration_ms?.p50),
                column('total90', 'Duration p90', (row) => row.duration_ms?.p90),
                column('total99', 'Duration p99', (row) => row.duration_ms?.p99),
              ]}
            />
          </Panel>
        )
      }
    </Loaded>
  );
}
