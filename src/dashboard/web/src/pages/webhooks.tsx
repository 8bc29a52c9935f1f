// Page that manages the organization's webhook endpoints and shows their deliveries.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { EVENT_TYPES, type CreatedWebhook, type WebhookObject } from '../../../../shared/wire/webhooks.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Code, PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { useOrganization } from '../session.js';
import { RotateSecretDialog } from './rotate-secret-dialog.js';
import { WebhookDeliveriesDialog } from './webhook-deliveries-dialog.js';
import { WebhookDialog } from './webhook-dialog.js';
import { WebhookSecretDialog } from './webhook-secret-dialog.js';

type Open =
  | { kind: 'create' }
  | { kind: 'edit' | 'deliveries' | 'rotate' | 'disable' | 'delete'; webhook: WebhookObject }
  | { kind: 'secret'; webhook: CreatedWebhook; rotated: boolean }
  | null;

export function Webhooks(): ReactNode {
  const { id, path, status } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [open, setOpen] = useState<Open>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const list = useList<WebhookObject>(['organization', id, 'webhooks', 'list'], `${path}/webhooks`);
  const mayChange = status === 'active';
  const close = (): void => setOpen(null);
  const changed = (): void => {
    void client.invalidateQueries({ queryKey: ['organization', id, 'webhooks'] });
  };
  const setEnabled = async (webhook: WebhookObject, enabled: boolean): Promise<void> => {
    await api.patch(`${path}/webhooks/${webhook.id}`, { enabled });
    toast(`Endpoint ${enabled ? 'enabled' : 'disabled'}`);
    changed();
  };
  const enable = (webhook: WebhookObject): void => {
    setFailure(null);
    setEnabled(webhook, true).catch(setFailure);
  };
  const remove = async (webhook: WebhookObject): Promise<void> => {
    await api.delete(`${path}/webhooks/${webhook.id}`);
    toast('Endpoint deleted');
    changed();
  };
  const add = mayChange ? (
    <Button variant="primary" onClick={() => setOpen({ kind: 'create' })}>
      <Icon name="plus" /> Add endpoint
    </Button>
  ) : undefined;
  return (
    <>
      <PageHeader title="Webhooks" actions={add}>
        When a background response or a batch ends, the server sends a signed POST request to each endpoint that
        subscribes to the event. If the endpoint does not return a 2xx status, the request is retried.
      </PageHeader>
      {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
      <Panel flush>
        <ListView
          list={list}
          empty={
            <EmptyState icon="webhooks" title="No endpoints yet" action={add}>
              {mayChange
                ? 'Add the URL of a program that receives events.'
                : 'No endpoints can be added while the organization is suspended.'}
            </EmptyState>
          }
        >
          {(rows) => (
            <Table
              caption="Webhook endpoints"
              rows={rows}
              rowKey={(webhook) => webhook.id}
              rowClass={({ disabled }) => (disabled === null ? undefined : 'dim')}
              columns={[
                {
                  key: 'url',
                  header: 'URL',
                  heading: true,
                  cell: (webhook) => (
                    <>
                      <span className="cell-main">{webhook.url}</span>
                      <span className="cell-sub">
                        <code>{webhook.id}</code>
                      </span>
                      {webhook.previous_secrets_until !== null && (
                        <span className="cell-sub">
                          The old secret is valid until <Time at={webhook.previous_secrets_until} />
                        </span>
                      )}
                    </>
                  ),
                },
                { key: 'events', header: 'Events', cell: (webhook) => <Events webhook={webhook} /> },
                { key: 'state', header: 'State', cell: (webhook) => <State webhook={webhook} /> },
                {
                  key: 'delivered',
                  header: 'Last delivery',
                  cell: (webhook) => <Time at={webhook.last_delivered_at} />,
                },
                {
                  key: 'actions',
                  header: 'Actions',
                  actions: true,
                  cell: (webhook) => (
                    <span className="row-actions">
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Deliveries to ${webhook.url}`}
                        onClick={() => setOpen({ kind: 'deliveries', webhook })}
                      >
                        Deliveries
                      </Button>
                      {mayChange && (
                        <>
                          <Button
                            size="small"
                            variant="ghost"
                            aria-label={`${webhook.disabled === null ? 'Disable' : 'Enable'} ${webhook.url}`}
                            onClick={() =>
                              webhook.disabled === null ? setOpen({ kind: 'disable', webhook }) : enable(webhook)
                            }
                          >
                            {webhook.disabled === null ? 'Disable' : 'Enable'}
                          </Button>
                          <button
                            type="button"
                            className="icon-button"
                            aria-label={`Edit ${webhook.url}`}
                            title="Edit"
                            onClick={() => setOpen({ kind: 'edit', webhook })}
                          >
                            <Icon name="edit" />
                          </button>
                          <button
                            type="button"
                            className="icon-button"
                            aria-label={`Rotate the secret of ${webhook.url}`}
                            title="Rotate secret"
                            onClick={() => setOpen({ kind: 'rotate', webhook })}
                          >
                            <Icon name="refresh" />
                          </button>
                          <button
                            type="button"
                            className="icon-button danger"
                            aria-label={`Delete ${webhook.url}`}
                            title="Delete"
                            onClick={() => setOpen({ kind: 'delete', webhook })}
                          >
                            <Icon name="trash" />
                          </button>
                        </>
                      )}
                    </span>
                  ),
                },
              ]}
            />
          )}
        </ListView>
      </Panel>
      {open?.kind === 'create' && (
        <WebhookDialog
          webhook={null}
          onClose={close}
          onCreated={(webhook) => {
            changed();
            setOpen({ kind: 'secret', webhook, rotated: false });
          }}
        />
      )}
      {open?.kind === 'edit' && (
        <WebhookDialog
          webhook={open.webhook}
          onClose={close}
          onSaved={() => {
            changed();
            toast('Endpoint saved');
            close();
          }}
        />
      )}
      {open?.kind === 'secret' && <WebhookSecretDialog created={open.webhook} rotated={open.rotated} onClose={close} />}
      {open?.kind === 'rotate' && (
        <RotateSecretDialog
          webhook={open.webhook}
          onClose={close}
          onRotated={(webhook) => {
            changed();
            setOpen({ kind: 'secret', webhook, rotated: true });
          }}
        />
      )}
      {open?.kind === 'deliveries' && <WebhookDeliveriesDialog webhook={open.webhook} onClose={close} />}
      {open?.kind === 'disable' && (
        <ConfirmDialog
          title="Disable this endpoint?"
          confirm="Disable endpoint"
          danger
          onConfirm={() => setEnabled(open.webhook, false)}
          onClose={close}
        >
          <p>
            Nothing is sent to <Code>{open.webhook.url}</Code> until it is enabled again. Pending deliveries fail, and
            events in the meantime are not sent later.
          </p>
        </ConfirmDialog>
      )}
      {open?.kind === 'delete' && (
        <ConfirmDialog
          title="Delete this endpoint?"
          confirm="Delete endpoint"
          danger
          onConfirm={() => remove(open.webhook)}
          onClose={close}
        >
          <p>
            <Code>{open.webhook.url}</Code> receives no more events. Its secret, its pending deliveries and the record
            of past deliveries are deleted. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

function Events({ webhook: { events } }: { webhook: WebhookObject }): ReactNode {
  if (EVENT_TYPES.every((type) => events.includes(type))) return 'All events';
  return (
    <ul className="pairs">
      {events.map((type) => (
        <li key={type}>
          <code className="nowrap">{type}</code>
        </li>
      ))}
    </ul>
  );
}

function State({ webhook: { disabled } }: { webhook: WebhookObject }): ReactNode {
  if (disabled === null)
    return (
      <Badge tone="ok" dot>
        Enabled
      </Badge>
    );
  return (
    <div>
      <Badge tone="warn">Disabled</Badge>
      <span className="cell-sub">{disabled}</span>
    </div>
  );
}
