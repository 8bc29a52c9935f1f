// Usage per model, key, member or endpoint.
import type { ReactNode } from 'react';
import { Table } from '../components/table.js';
import { count, percent } from '../format.js';
import { money } from '../usage-data.js';
import type { Sums } from '../usage-data.js';
import { cachedShare } from './usage-stats.js';

interface Group {
  name: string;
  sums: Sums;
}

/** `heading`: the type of the groups, such as "Model". The cost column is omitted while no prices are set. */
export function UsageTable({
  heading,
  groups,
  nameOf,
  explain = () => undefined,
  currency,
}: {
  heading: string;
  groups: readonly Group[];
  nameOf: (name: string) => string;
  explain?: (name: string) => string | undefined;
  currency: string;
}): ReactNode {
  return (
    <Table
      caption={`Usage by ${heading}`}
      rows={groups}
      rowKey={({ name }) => name}
      columns={[
        {
          key: 'name',
          header: heading,
          heading: true,
          cell: ({ name }) => (
            <>
              <span className="cell-main">{nameOf(name)}</span>
              {explain(name) !== undefined && <span className="cell-sub">{explain(name)}</span>}
            </>
          ),
        },
        { key: 'requests', header: 'Requests', numeric: true, cell: ({ sums }) => count(sums.requests) },
        { key: 'input', header: 'Input tokens', numeric: true, cell: ({ sums }) => count(sums.input_tokens) },
        { key: 'cached', header: 'Cached', numeric: true, cell: ({ sums }) => percent(cachedShare(sums)) },
        { key: 'output', header: 'Output tokens', numeric: true, cell: ({ sums }) => count(sums.output_tokens) },
        { key: 'reasoning', header: 'Reasoning', numeric: true, cell: ({ sums }) => count(sums.reasoning_tokens) },
        ...(groups.every(({ sums }) => sums.cost === null)
          ? []
          : [
              {
                key: 'cost',
                header: 'Cost',
                numeric: true,
                cell: ({ sums }: Group) => money(sums.cost, currency, 'cell'),
              },
            ]),
        { key: 'errors', header: 'Errors', numeric: true, cell: ({ sums }) => count(sums.errors) },
        { key: 'limited', header: 'Rate-limited', numeric: true, cell: ({ sums }) => count(sums.rate_limited) },
      ]}
    />
  );
}
