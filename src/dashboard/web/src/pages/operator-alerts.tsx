// Alerts: current and past incidents, current measurements, destinations, and whether processes watch each other.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { AlertKind, AlertMeasure, AlertState } from '../../../../shared/wire/alerts.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Code, PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { DestinationPanel } from '../operator/alert-destinations.js';
import { IncidentTable, KINDS } from '../operator/alert-incidents.js';

const EVERY_MS = 10_000;

export function OperatorAlerts(): ReactNode {
  const state = useQuery({
    queryKey: ['operator', 'alerts'],
    queryFn: ({ signal }) => api.get<AlertState>('/operator/alerts', {}, signal),
    refetchInterval: EVERY_MS,
  });
  return (
    <>
      <PageHeader title="Alerts">
        An incident begins when a measured value exceeds its threshold, and ends when the value has been back within it
        for a while.
      </PageHeader>
      <Loaded query={state}>
        {({ active, recent, measures, off, destinations, processes, watches_down: watchesDown }) => (
          <>
            <Panel title="Current incidents" flush>
              {active.length === 0 ? (
                <EmptyState icon="check" title="No current incidents" />
              ) : (
                <IncidentTable caption="Current incidents" incidents={active} />
              )}
            </Panel>
            <MeasurePanel measures={measures} off={off} />
            <DestinationPanel destinations={destinations} />
            <DownPanel watched={watchesDown} processes={processes} />
            <Panel title="Recent incidents" flush>
              {recent.length === 0 ? (
                <p className="panel-pad muted">No incidents yet.</p>
              ) : (
                <IncidentTable caption="Recent incidents" incidents={recent} />
              )}
            </Panel>
          </>
        )}
      </Loaded>
    </>
  );
}

const LEVELS = {
  ok: { tone: 'ok', label: 'OK' },
  alert: { tone: 'danger', label: 'Alert' },
  unknown: { tone: 'neutral', label: 'Not enough data' },
} as const satisfies Record<AlertMeasure['state'], object>;

function MeasurePanel({ measures, off }: Pick<AlertState, 'measures' | 'off'>): ReactNode {
  const isOff = off.filter((kind) => kind !== 'down').map((kind) => KINDS[kind].toLowerCase());
  const isMeasured = (kind: AlertKind): boolean => measures === null || measures.some((one) => one.kind === kind);
  const notes = [
    ...(isOff.length === 0 ? [] : [`Not measured, because of the settings: ${isOff.join(', ')}.`]),
    ...(off.includes('latency') || isMeasured('latency') ? [] : ['No latencies were measured recently.']),
    ...(off.includes('budget') || isMeasured('budget') ? [] : ['No budget is spent.']),
  ];
  return (
    <Panel title="Measured" lead={notes.length === 0 ? undefined : notes.join(' ')} flush>
      {measures === null ? (
        <p className="panel-pad muted">The current values are not available right now.</p>
      ) : measures.length === 0 ? (
        <p className="panel-pad muted">Nothing has been measured yet.</p>
      ) : (
        <Table
          caption="Measured"
          rows={measures}
          rowKey={({ kind, name }) => `${kind} ${name}`}
          columns={[
            { key: 'name', header: 'Name', heading: true, cell: ({ name }) => name },
            {
              key: 'value',
              header: 'Value',
              cell: ({ value, note }) => (
                <>
                  {value ?? <span className="muted">none</span>}
                  {note !== null && <span className="cell-sub">{note}</span>}
                </>
              ),
            },
            { key: 'threshold', header: 'Threshold', cell: ({ threshold }) => threshold },
            {
              key: 'state',
              header: 'State',
              cell: ({ state }) => (
                <Badge tone={LEVELS[state].tone} dot>
                  {LEVELS[state].label}
                </Badge>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

function DownPanel({ watched, processes }: { watched: boolean; processes: AlertState['processes'] }): ReactNode {
  return (
    <Panel title="Down" flush={watched}>
      {watched ? (
        <Table
          caption="Processes"
          rows={processes}
          rowKey={({ name }) => name}
          columns={[
            { key: 'name', header: 'Process', heading: true, cell: ({ name }) => name },
            {
              key: 'state',
              header: 'State',
              cell: ({ alive, sends }) => (
                <span className="row">
                  <Badge tone={alive ? 'ok' : 'danger'} dot>
                    {alive ? 'Running' : 'No heartbeat'}
                  </Badge>
                  {sends && <Badge tone="accent">Sends the alerts</Badge>}
                </span>
              ),
            },
            { key: 'seen', header: 'Last seen', cell: ({ seen_at: at }) => <Time at={at} /> },
          ]}
        />
      ) : (
        <Notice>
          {processes.length > 1
            ? 'The processes do not watch each other, because alerts.down_s is 0.'
            : 'A process cannot report its own exit, and no other process shares its database.'}{' '}
          Let Prometheus report that the server is down: the rule MonolithDown in <Code>deploy/alerts.yaml</Code>, see{' '}
          <Code>docs/guides/monitoring.md</Code>.
        </Notice>
      )}
    </Panel>
  );
}
