// Lists incidents, with their measured values and the delivery state of their messages.
import type { ReactNode } from 'react';
import type { AlertDelivery, AlertIncident, AlertKind } from '../../../../shared/wire/alerts.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Time } from '../components/page.js';
import { Table } from '../components/table.js';
import { dateTime, duration } from '../format.js';

export const KINDS: Readonly<Record<AlertKind, string>> = {
  error_rate: 'Error rate',
  latency: 'Latency',
  disk: 'Disk space',
  budget: 'Budget',
  down: 'Process down',
};

const STATES: Readonly<Record<AlertDelivery['state'], { tone: Tone; label: string }>> = {
  pending: { tone: 'warn', label: 'Pending' },
  delivered: { tone: 'ok', label: 'Delivered' },
  failed: { tone: 'danger', label: 'Failed' },
  skipped: { tone: 'neutral', label: 'Skipped' },
};

export function IncidentTable({
  caption,
  incidents,
}: {
  caption: string;
  incidents: readonly AlertIncident[];
}): ReactNode {
  return (
    <Table
      caption={caption}
      rows={incidents}
      rowKey={({ id }) => id}
      columns={[
        {
          key: 'title',
          header: 'Incident',
          heading: true,
          cell: ({ title, what, process, look_at: lookAt, end, ended_at: endedAt }) => (
            <>
              <span className="cell-main">{title}</span>
              <span className="cell-sub">{endedAt === null || end === null ? what : end}</span>
              {process !== null && <span className="cell-sub">On: {process}</span>}
              {endedAt === null && <span className="cell-sub">Look at: {lookAt}</span>}
            </>
          ),
        },
        { key: 'kind', header: 'Kind', cell: ({ kind }) => KINDS[kind] },
        {
          key: 'began',
          header: 'Began',
          cell: ({ began_at: at, ended_at: endedAt }) => (
            <>
              <Time at={at} />
              {endedAt !== null && (
                <span className="cell-sub">lasted {duration(Date.parse(endedAt) - Date.parse(at))}</span>
              )}
            </>
          ),
        },
        { key: 'messages', header: 'Messages', cell: ({ deliveries }) => <Messages deliveries={deliveries} /> },
      ]}
    />
  );
}

function Messages({ deliveries }: { deliveries: readonly AlertDelivery[] }): ReactNode {
  if (deliveries.length === 0) return <span className="muted">none</span>;
  return (
    <ul>
      {deliveries.map((one) => (
        <li key={`${one.destination} ${one.event}`}>
          <span className="row">
            <Badge tone={STATES[one.state].tone} dot>
              {STATES[one.state].label}
            </Badge>
            <span>{one.event === 'began' ? 'begin' : 'end'}</span>
          </span>
          <span className="cell-sub">{one.label}</span>
          {one.error !== null && <span className="cell-sub">{problemOf(one)}</span>}
        </li>
      ))}
    </ul>
  );
}

function problemOf({ state, error, attempts, next_at: next }: AlertDelivery): string {
  if (state === 'skipped') return error ?? '';
  const tries = `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}: ${error ?? ''}`;
  return next === null ? tries : `${tries}. Next attempt: ${dateTime(next)}`;
}
