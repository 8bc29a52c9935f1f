// Stored responses: list, view and delete. Conversations: list and delete.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { StoredResponseObject } from '../../../../shared/wire/stored-responses.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Code, Moment, PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { useOrganization } from '../session.js';
import { ConversationsPanel } from './conversations-panel.js';
import { ResponseDialog } from './response-dialog.js';

const TONES: Record<string, Tone> = {
  completed: 'ok',
  in_progress: 'accent',
  queued: 'accent',
  incomplete: 'warn',
  failed: 'danger',
  cancelled: 'neutral',
};

export function Responses(): ReactNode {
  const { id, path } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [deleting, setDeleting] = useState<Pick<StoredResponseObject, 'id'> | null>(null);
  const [open, setOpen] = useState<string | null>(null);
  const list = useList<StoredResponseObject>(['organization', id, 'responses'], `${path}/responses`);
  const remove = async (response: Pick<StoredResponseObject, 'id'>): Promise<void> => {
    await api.delete(`${path}/responses/${response.id}`);
    toast('Response deleted');
    void client.invalidateQueries({ queryKey: ['organization', id, 'responses'] });
  };
  return (
    <>
      <PageHeader title="Stored responses">
        The Responses API stores each response by default, so that a later request can continue it:{' '}
        <Code>store: true</Code>. With <Code>store: false</Code> nothing is stored. Only admins see this list; the audit
        log records when a response is opened.
      </PageHeader>
      <Panel title="Responses" flush>
        <ListView
          list={list}
          empty={
            <EmptyState icon="responses" title="No stored responses">
              Responses created with the Responses API appear here while they are stored.
            </EmptyState>
          }
        >
          {(rows) => (
            <Table
              caption="Stored responses"
              rows={rows}
              rowKey={(response) => response.id}
              columns={[
                {
                  key: 'prompt',
                  header: 'Prompt',
                  heading: true,
                  phone: 'grow',
                  cell: (response) => (
                    <button
                      type="button"
                      className="row-link response-prompt"
                      title={response.preview ?? undefined}
                      onClick={() => setOpen(response.id)}
                    >
                      {response.preview ?? <span className="muted">no text</span>}
                    </button>
                  ),
                },
                {
                  key: 'id',
                  header: 'ID',
                  cell: (response) => (
                    <span className="row tight nowrap above">
                      <code className="id" title={response.id}>
                        …{response.id.slice(-8)}
                      </code>
                      <CopyButton text={response.id} label={`Copy ID ending in ${response.id.slice(-8)}`} iconOnly />
                    </span>
                  ),
                },
                {
                  key: 'model',
                  header: 'Model',
                  cell: (response) => <span className="nowrap">{response.model}</span>,
                },
                {
                  key: 'status',
                  header: 'Status',
                  phone: 'fit',
                  cell: (response) => (
                    <span className="row tight nowrap">
                      <Badge tone={TONES[response.status] ?? 'neutral'}>{response.status.replaceAll('_', ' ')}</Badge>
                      {response.background && (
                        <span className="wide-only">
                          <Badge>background</Badge>
                        </span>
                      )}
                    </span>
                  ),
                },
                {
                  key: 'created',
                  header: 'Created',
                  phone: 'fit',
                  cell: (response) => <Moment at={response.created_at} precise={false} />,
                },
                {
                  key: 'expires',
                  header: 'Expires',
                  cell: (response) => (
                    <span className="nowrap">
                      <Time at={response.expires_at} />
                    </span>
                  ),
                },
                {
                  key: 'actions',
                  header: 'Actions',
                  actions: true,
                  cell: (response) => (
                    <button
                      type="button"
                      className="icon-button danger above"
                      aria-label={`Delete ${response.id}`}
                      title="Delete"
                      onClick={() => setDeleting(response)}
                    >
                      <Icon name="trash" />
                    </button>
                  ),
                },
              ]}
            />
          )}
        </ListView>
      </Panel>
      <ConversationsPanel />
      {open !== null && (
        <ResponseDialog
          id={open}
          onDelete={() => {
            setDeleting({ id: open });
            setOpen(null);
          }}
          onClose={() => setOpen(null)}
        />
      )}
      {deleting !== null && (
        <ConfirmDialog
          title="Delete this response?"
          confirm="Delete response"
          danger
          onConfirm={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>
            <Code>{deleting.id}</Code> will be erased. Requests that continue it will return 404. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
