// Tab of the files page that lists, downloads and deletes the organization's files.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { FileListItem } from '../../../../shared/wire/files.js';
import { API, api } from '../api.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Code, Moment, Panel, Time } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { bytes } from '../format.js';
import { useOrganization } from '../session.js';

export function FilesPanel(): ReactNode {
  const { id: organization, path, status } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [deleting, setDeleting] = useState<FileListItem | null>(null);
  const key = ['organization', organization, 'files'];
  const list = useList<FileListItem>(key, `${path}/files`);
  const remove = async ({ id }: FileListItem): Promise<void> => {
    await api.delete(`${path}/files/${id}`);
    toast('File deleted');
    void client.invalidateQueries({ queryKey: key });
  };
  return (
    <Panel flush>
      <ListView
        list={list}
        empty={
          <EmptyState icon="files" title="No files">
            Files that are uploaded with the Files API and results of batches appear here until they expire.
          </EmptyState>
        }
      >
        {(rows) => (
          <Table
            caption="Files"
            rows={rows}
            rowKey={({ id }) => id}
            columns={[
              {
                key: 'name',
                header: 'Name',
                heading: true,
                phone: 'grow',
                cell: ({ id, filename }) => (
                  <>
                    <span className="cell-main">{filename}</span>
                    <span className="cell-sub row tight nowrap">
                      <code className="id" title={id}>
                        …{id.slice(-8)}
                      </code>
                      <CopyButton text={id} label={`Copy ID ending in ${id.slice(-8)}`} iconOnly />
                    </span>
                  </>
                ),
              },
              { key: 'purpose', header: 'Purpose', cell: ({ purpose }) => <code className="nowrap">{purpose}</code> },
              {
                key: 'size',
                header: 'Size',
                numeric: true,
                cell: ({ bytes: size }) => <span className="nowrap">{bytes(size)}</span>,
              },
              { key: 'created', header: 'Created', cell: ({ created_at: at }) => <Moment at={at} precise={false} /> },
              {
                key: 'expires',
                header: 'Expires',
                cell: ({ expires_at: at }) => (
                  <span className="nowrap">
                    <Time at={at} />
                  </span>
                ),
              },
              {
                key: 'actions',
                header: 'Actions',
                actions: true,
                cell: (file) => (
                  <span className="row-actions">
                    <a
                      className="icon-button"
                      href={`${API}${path}/files/${file.id}/content`}
                      download={file.filename}
                      aria-label={`Download ${file.filename}`}
                      title="Download"
                    >
                      <Icon name="download" />
                    </a>
                    {status === 'active' && (
                      <button
                        type="button"
                        className="icon-button danger"
                        aria-label={`Delete ${file.filename}`}
                        title="Delete"
                        onClick={() => setDeleting(file)}
                      >
                        <Icon name="trash" />
                      </button>
                    )}
                  </span>
                ),
              },
            ]}
          />
        )}
      </ListView>
      {deleting !== null && (
        <ConfirmDialog
          title="Delete this file?"
          confirm="Delete file"
          danger
          onConfirm={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>
            <Code>{deleting.filename}</Code> will be erased. Requests that refer to it will return 404. A batch that
            already uses it continues. This cannot be undone.
          </p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}
