// Dialog that shows the latest deliveries to a webhook endpoint.
import type { ReactNode } from 'react';
import type { WebhookDelivery, WebhookObject } from '../../../../shared/wire/webhooks.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { ListView, useList } from '../components/list.js';
import { Code, Moment } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { count } from '../format.js';
import { useOrganization } from '../session.js';

const EVERY_MS = 5_000;
const PAGE = 20;

const STATES: Readonly<Record<WebhookDelivery['state'], { tone: Tone; label: string }>> = {
  pending: { tone: 'accent', label: 'Pending' },
  delivered: { tone: 'ok', label: 'Delivered' },
  failed: { tone: 'danger', label: 'Failed' },
};

export function WebhookDeliveriesDialog({
  webhook: { id, url },
  onClose,
}: {
  webhook: WebhookObject;
  onClose: () => void;
}): ReactNode {
  const { id: organization, path } = useOrganization();
  const list = useList<WebhookDelivery>(
    ['organization', organization, 'webhooks', 'deliveries', id],
    `${path}/webhooks/${id}/deliveries`,
    {},
    PAGE,
    EVERY_MS,
  );
  return (
    <Dialog title="Deliveries" size="wide" onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      <p>
        Events of the last 7 days that were sent to <Code>{url}</Code>, newest first.
      </p>
      <ListView
        list={list}
        empty={
          <EmptyState icon="webhooks" title="No deliveries yet">
            An event appears here as soon as it occurs.
          </EmptyState>
        }
      >
        {(rows) => (
          <Table
            caption="Deliveries"
            rows={rows}
            rowKey={(delivery) => delivery.event_id}
            columns={[
              {
                key: 'type',
                header: 'Event',
                heading: true,
                cell: ({ type, object_id: object }) => (
                  <>
                    <code>{type}</code>
                    <span className="cell-sub">
                      <code title={object}>…{object.slice(-8)}</code>
                    </span>
                  </>
                ),
              },
              {
                key: 'state',
                header: 'State',
                cell: ({ state, error }) => (
                  <div>
                    <Badge tone={STATES[state].tone}>{STATES[state].label}</Badge>
                    {error !== null && <span className="cell-sub">{error}</span>}
                  </div>
                ),
              },
              { key: 'attempts', header: 'Attempts', numeric: true, cell: ({ attempts }) => count(attempts) },
              { key: 'created', header: 'Time', cell: ({ created_at: at }) => <Moment at={at} precise={false} /> },
            ]}
          />
        )}
      </ListView>
    </Dialog>
  );
}
