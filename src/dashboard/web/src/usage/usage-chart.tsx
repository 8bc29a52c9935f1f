// Usage over time as stacked bars, one color per group.
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { UsageBucket } from '../../../../shared/wire/usage.js';
import { Chart } from '../components/chart.js';
import { Select } from '../components/field.js';
import { Panel } from '../components/page.js';
import { short } from '../format.js';
import { bucketsOf, byGroup, MEASURES, money, OTHERS, seriesOf } from '../usage-data.js';
import type { Measure, Sums } from '../usage-data.js';

/** Number of groups with their own color. All other groups are summed into one. */
const COLORED = 7;

/** `groupOf`: returns a row's group. `nameOf`: returns a group's label. */
export function UsageChart<R extends Sums & { bucket_start: string }>({
  span,
  rows,
  groupOf,
  nameOf,
  currency,
}: {
  span: { from: string; to: string; bucket: UsageBucket };
  rows: readonly R[];
  groupOf: (row: R) => string;
  nameOf: (group: string) => string;
  currency: string;
}): ReactNode {
  const [measure, setMeasure] = useState<Measure>('tokens');
  const { times, series } = useMemo(() => {
    const groups = byGroup(rows, groupOf).map(({ name }) => name);
    const names = groups.length <= COLORED ? groups : [...groups.slice(0, COLORED), OTHERS];
    const line = bucketsOf(span);
    const values = seriesOf(rows, line, names, groupOf, measure);
    const labelOf = (name: string): string => (name === OTHERS ? OTHERS : nameOf(name));
    return { times: line, series: names.map((name, i) => ({ label: labelOf(name), values: values[i] ?? [] })) };
  }, [rows, groupOf, span, measure, nameOf]);
  const hasCosts = rows.some(({ cost }) => cost !== null);
  const label = MEASURES.find(({ value }) => value === measure)?.label ?? '';
  return (
    <Panel
      title="Over time"
      lead={span.bucket === 'day' ? 'Days are in UTC.' : undefined}
      actions={
        <Select
          label="Measure"
          hideLabel
          value={measure}
          onChange={(event) => setMeasure(event.target.value as Measure)}
          options={MEASURES.filter(({ value }) => value !== 'cost' || hasCosts).map(({ value, label: text }) => ({
            value,
            label: text,
          }))}
        />
      }
    >
      <Chart
        title={`${label} over time`}
        kind="bars"
        times={times}
        series={series}
        utc={span.bucket === 'day'}
        format={measure === 'cost' ? (value) => money(value, currency) : short}
      />
    </Panel>
  );
}
