// Load by sender: by organization, or by API key within one organization.
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { LiveKeys } from '../../../../shared/wire/live.js';
import type { OperatorOrganization } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { Chart } from '../components/chart.js';
import { Select } from '../components/field.js';
import { Loaded, Skeleton } from '../components/states.js';
import { short } from '../format.js';
import type { LiveRange, Span } from './ranges.js';
import { useSenders } from './use-past.js';

type Series = LiveKeys['series'][number];
const MEASURES = [
  {
    value: 'tokens',
    label: 'Tokens',
    of: (one: Series, at: number) => (one.input_tokens[at] ?? 0) + (one.output_tokens[at] ?? 0),
  },
  { value: 'output', label: 'Output tokens', of: (one: Series, at: number) => one.output_tokens[at] ?? 0 },
  { value: 'requests', label: 'Requests', of: (one: Series, at: number) => one.requests[at] ?? 0 },
  { value: 'refused', label: 'Refused requests', of: (one: Series, at: number) => one.refused[at] ?? 0 },
] as const;

export function LiveSenders({
  range,
  zoom,
  words,
  paused,
  onZoom,
}: {
  range: LiveRange;
  zoom: Span | null;
  words: string;
  paused: boolean;
  onZoom: (from: number, to: number) => void;
}): ReactNode {
  const [organization, setOrganization] = useState('');
  const [measure, setMeasure] = useState<string>('tokens');
  const query = useSenders(range, zoom, organization, paused);
  const organizations = useQuery({
    queryKey: ['operator', 'organizations', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<OperatorOrganization>>('/operator/organizations', { limit: 100 }, signal),
  });
  return (
    <section className="live-part" aria-label="Load by sender">
      <div className="live-head">
        <h2>{organization === '' ? 'By organization' : 'By key'}</h2>
        <Select
          className="compact"
          label="Organization"
          hideLabel
          value={organization}
          onChange={(event) => setOrganization(event.target.value)}
          options={[
            { value: '', label: 'All organizations' },
            ...(organizations.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
          ]}
        />
        <Select
          className="compact"
          label="Measure"
          hideLabel
          value={measure}
          onChange={(event) => setMeasure(event.target.value)}
          options={MEASURES.map(({ value, label }) => ({ value, label }))}
        />
      </div>
      <Loaded query={query} loading={<Skeleton rows={3} height={32} />}>
        {(data) => <Senders data={data} measure={measure} words={words} onZoom={onZoom} byKey={organization !== ''} />}
      </Loaded>
    </section>
  );
}

function Senders({
  data,
  measure,
  words,
  onZoom,
  byKey,
}: {
  data: LiveKeys & { span: Span };
  measure: string;
  words: string;
  onZoom: (from: number, to: number) => void;
  byKey: boolean;
}): ReactNode {
  const { times, series, total } = useMemo(() => {
    const { of } = MEASURES.find(({ value }) => value === measure) ?? MEASURES[0];
    const {
      step_s: step,
      span: { from, to },
    } = data;
    const place = new Map(data.times.map((time, at) => [Date.parse(time) / 1000, at]));
    // A time slot without an entry had no load.
    const line: number[] = [];
    for (let at = Math.floor(from / step) * step; at < to; at += step) line.push(at);
    const all = data.series.map((one) => ({
      label: one.name,
      values: line.map((time) => (place.has(time) ? of(one, place.get(time) as number) : 0)),
    }));
    return {
      times: line,
      series: all,
      total: all.reduce((sum, { values }) => sum + values.reduce((a, b) => a + b, 0), 0),
    };
  }, [data, measure]);
  if (data.series.length === 0)
    return (
      <div className="panel live-chart senders">
        <p className="muted">No requests {words === '' ? 'in this range' : `in the ${words}`}.</p>
      </div>
    );
  return (
    <div className="panel live-chart senders">
      <Chart
        title={`${MEASURES.find(({ value }) => value === measure)?.label ?? ''} by ${byKey ? 'key' : 'organization'}, ${words}`}
        kind="bars"
        times={times}
        series={series}
        height={200}
        format={short}
        clockOnly={data.span.to - data.span.from <= 6 * 3_600}
        onZoom={onZoom}
      />
      <p className="hint">
        {short(total)} total, counted when a request ends, in steps of{' '}
        {data.step_s < 60 ? `${data.step_s} seconds` : `${data.step_s / 60} minutes`}.
      </p>
    </div>
  );
}
