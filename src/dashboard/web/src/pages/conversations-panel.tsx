// Panel of the stored-responses page that lists and deletes the organization's conversations.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ConversationObject } from '../../../../shared/wire/stored-responses.js';
import { api } from '../api.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Code, Moment, Panel } from '../components/page.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { count, plural } from '../format.js';
import { useOrganization } from '../session.js';

const PAGE = 20;

export function ConversationsPanel(): ReactNode {
  const { id: organization, path } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [deleting, setDeleting] = useState<ConversationObject | null>(null);
  const key = ['organization', organization, 'conversations'];
  const list = useList<ConversationObject>(key, `${path}/conversations`, {}, PAGE);
  const remove = async ({ id }: ConversationObject): Promise<void> => {
    await api.delete(`${path}/conversations/${id}`);
    toast('Conversation deleted');
    void client.invalidateQueries({ queryKey: key });
  };
  return (
    <Panel
      title="Conversations"
      lead="Created with the Conversations API. Requests read their items and add new items."
      flush
    >
      <ListView list={list} empty={<p className="panel-pad muted">No conversations.</p>}>
        {(rows) => (
          <Table
            caption="Conversations"
            rows={rows}
            rowKey={({ id }) => id}
            columns={[
              {
                key: 'id',
                header: 'ID',
                heading: true,
                cell: ({ id }) => (
                  <span className="row tight nowrap">
                    <code className="id" title={id}>
                      …{id.slice(-8)}
                    </code>
                    <CopyButton text={id} label={`Copy ID ending in ${id.slice(-8)}`} iconOnly />
                  </span>
                ),
              },
              {
                key: 'metadata',
                header: 'Metadata',
                cell: ({ metadata }) =>
                  Object.keys(metadata).length === 0 ? (
                    <span className="muted">none</span>
                  ) : (
                    <ul className="pairs">
                      {Object.entries(metadata).map(([name, value]) => (
                        <li key={name}>
                          <span className="muted">{name}</span> {value}
                        </li>
                      ))}
                    </ul>
                  ),
              },
              { key: 'items', header: 'Items', numeric: true, cell: ({ items }) => count(items) },
              { key: 'created', header: 'Created', cell: ({ created_at: at }) => <Moment at={at} precise={false} /> },
              {
                key: 'actions',
                header: 'Actions',
                actions: true,
                cell: (conversation) => (
                  <button
                    type="button"
                    className="icon-button danger"
                    aria-label={`Delete ${conversation.id}`}
                    title="Delete"
                    onClick={() => setDeleting(conversation)}
                  >
                    <Icon name="trash" />
                  </button>
                ),
              },
            ]}
          />
        )}
      </ListView>
      {deleting !== null && (
        <ConfirmDialog
          title="Delete this conversation?"
          confirm="Delete conversation"
          danger
          onConfirm={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>
            <Code>{deleting.id}</Code> and its {plural(deleting.items, 'item')} will be erased. Requests that name it
            will return 404. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}
