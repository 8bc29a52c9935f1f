// The organization's limits and their current usage.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { BucketUse, LimitsObject } from '../../../../shared/wire/limits.js';
import { api } from '../api.js';
import { Code, Meter, PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded, Skeleton } from '../components/states.js';
import { count, date, duration, short } from '../format.js';
import { useOrganization } from '../session.js';

const REFRESH_MS = 3_000;

export function Limits(): ReactNode {
  const { id, path } = useOrganization();
  const limits = useQuery({
    queryKey: ['organization', id, 'limits'],
    queryFn: ({ signal }) => api.get<LimitsObject>(`${path}/limits`, {}, signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <>
      <PageHeader title="Limits">
        Limits apply per model, to all of the organization's API keys combined. A request over a limit returns 429 and
        says how long to wait before retrying. The server's operator sets the limits.
      </PageHeader>
      <Loaded query={limits} loading={<Skeleton rows={8} height={24} />}>
        {({ models, month }) => (
          <>
            <Panel title="This month" lead={`Resets on ${date(month.resets_at)}.`}>
              <Use
                label="Tokens this month"
                used={month.tokens}
                limit={month.cap}
                text={
                  month.cap === null
                    ? `${count(month.tokens)} tokens, no cap`
                    : `${count(month.tokens)} of ${count(month.cap)} tokens`
                }
              />
            </Panel>
            {models.length === 0 && <EmptyState icon="models" title="No models are served" />}
            <div className="cards">
              {models.map(({ model, requests, tokens, concurrency }) => (
                <section key={model} className="panel" aria-labelledby={`limit-${model}`}>
                  <header className="panel-head">
                    <h2 id={`limit-${model}`}>
                      <Code>{model}</Code>
                    </h2>
                  </header>
                  <div className="panel-body">
                    <Bucket label="Requests per minute" of={model} use={requests} />
                    <Bucket label="Tokens per minute" of={model} use={tokens} />
                    <Use
                      label="Concurrent requests"
                      of={model}
                      used={concurrency.in_use}
                      limit={concurrency.limit}
                      text={
                        concurrency.limit === null
                          ? `${count(concurrency.in_use)} running, no limit`
                          : `${count(concurrency.in_use)} of ${count(concurrency.limit)}`
                      }
                    />
                  </div>
                </section>
              ))}
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}

function Bucket({
  label,
  of,
  use: { limit, remaining, reset_ms: reset },
}: {
  label: string;
  of: string;
  use: BucketUse;
}): ReactNode {
  if (limit === null) return <Use label={label} of={of} used={0} limit={null} text="No limit" />;
  const used = Math.max(0, limit - (remaining ?? limit));
  const text = `${short(used)} of ${count(limit)}`;
  return (
    <Use
      label={label}
      of={of}
      used={used}
      limit={limit}
      text={text}
      note={used > 0 && reset !== null && reset > 0 ? `fully available in ${duration(reset)}` : 'unused'}
    />
  );
}

function Use({
  label,
  of,
  used,
  limit,
  text,
  note,
}: {
  label: string;
  of?: string;
  used: number;
  limit: number | null;
  text: string;
  note?: string;
}): ReactNode {
  return (
    <div className="use">
      <div className="use-head">
        <span>{label}</span>
        <span className="muted">{text}</span>
      </div>
      {limit === null ? (
        <div className="meter none" aria-hidden="true" />
      ) : (
        <Meter label={of === undefined ? label : `${label}, ${of}`} value={used} max={limit} text={text} />
      )}
      {note !== undefined && <span className="hint">{note}</span>}
    </div>
  );
}
