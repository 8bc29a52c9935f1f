// Lists the alert destinations, with a test button for each.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { AlertDestination, AlertTest } from '../../../../shared/wire/alerts.js';
import { api, messageOf } from '../api.js';
import { Button } from '../components/button.js';
import { Code, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { duration } from '../format.js';

const TYPES: Readonly<Record<AlertDestination['type'], string>> = {
  mail: 'Mail',
  webhook: 'Signed webhook',
  slack: 'Slack or compatible',
};

export function DestinationPanel({ destinations }: { destinations: readonly AlertDestination[] }): ReactNode {
  const [busy, setBusy] = useState<string | null>(null);
  /** By destination. */
  const [results, setResults] = useState<Readonly<Record<string, string>>>({});
  const test = ({ id }: AlertDestination): void => {
    const show = (result: string): void => setResults((before) => ({ ...before, [id]: result }));
    setBusy(id);
    show('');
    api
      .post<AlertTest>('/operator/alerts/test', { destination: id })
      .then(
        ({ delivered, error, ms }) =>
          show(delivered ? `Delivered in ${duration(ms)}` : `Not delivered: ${error ?? 'unknown reason'}`),
        (error: unknown) => show(`Not sent: ${messageOf(error)}`),
      )
      .finally(() => setBusy(null));
  };
  return (
    <Panel
      title="Destinations"
      lead="Each destination receives one message when an incident starts and one when it ends."
      flush
    >
      {destinations.length === 0 ? (
        <EmptyState icon="warning" title="No destinations">
          Incidents are shown here and logged, but nobody is notified. Set <Code>alerts.mail</Code>,{' '}
          <Code>alerts.webhooks</Code> or <Code>alerts.slack</Code> and restart the server.
        </EmptyState>
      ) : (
        <Table
          caption="Destinations"
          rows={destinations}
          rowKey={({ id }) => id}
          columns={[
            { key: 'label', header: 'Destination', heading: true, cell: ({ label }) => <Code>{label}</Code> },
            { key: 'type', header: 'Type', cell: ({ type }) => TYPES[type] },
            { key: 'result', header: 'Test', cell: ({ id }) => <span role="status">{results[id] ?? ''}</span> },
            {
              key: 'actions',
              header: 'Actions',
              actions: true,
              cell: (one) => (
                <Button
                  size="small"
                  busy={busy === one.id}
                  aria-label={`Send a test alert to ${one.label}`}
                  onClick={() => {
                    if (busy === null) test(one);
                  }}
                >
                  Send a test alert
                </Button>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}
