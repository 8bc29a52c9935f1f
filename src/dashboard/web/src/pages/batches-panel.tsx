// Tab of the files page that lists and cancels the organization's batches.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { BatchListItem, BatchState } from '../../../../shared/wire/files.js';
import { API, api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog } from '../components/dialog.js';
import { ListView, useList } from '../components/list.js';
import { Code, Moment, Panel, Time } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { Segmented } from '../components/tabs.js';
import { useToast } from '../components/toasts.js';
import { count } from '../format.js';
import { useOrganization } from '../session.js';

const TONES: Record<BatchState, Tone> = {
  validating: 'accent',
  in_progress: 'accent',
  finalizing: 'accent',
  completed: 'ok',
  failed: 'danger',
  expired: 'warn',
  cancelling: 'neutral',
  cancelled: 'neutral',
};

/** How often the list is refreshed, in ms. */
const REFRESH_MS = 5_000;

export function BatchesPanel(): ReactNode {
  const { id: organization, path, status } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [kind, setKind] = useState<BatchListItem['kind']>('openai');
  const [cancelling, setCancelling] = useState<BatchListItem | null>(null);
  const key = ['organization', organization, 'batches'];
  const list = useList<BatchListItem>(key, `${path}/batches`, { kind }, 50, REFRESH_MS);
  const cancel = async ({ id }: BatchListItem): Promise<void> => {
    await api.post(`${path}/batches/${id}/cancel`);
    toast('Batch is being cancelled');
    void client.invalidateQueries({ queryKey: key });
  };
  return (
    <>
      <Segmented
        label="Created with"
        value={kind}
        onChange={setKind}
        options={[
          { value: 'openai', label: '/v1/batches' },
          { value: 'messages', label: '/v1/messages/batches' },
        ]}
      />
      <Panel flush>
        <ListView
          list={list}
          empty={
            <EmptyState icon="files" title="No batches">
              Batches appear here while they run, and until their results expire.
            </EmptyState>
          }
        >
          {(rows) => (
            <Table
              caption="Batches"
              rows={rows}
              rowKey={({ id }) => id}
              columns={[
                {
                  key: 'id',
                  header: 'Batch',
                  heading: true,
                  phone: 'grow',
                  cell: ({ id, endpoint, model }) => (
                    <>
                      <span className="row tight nowrap">
                        <code className="id" title={id}>
                          …{id.slice(-8)}
                        </code>
                        <CopyButton text={id} label={`Copy ID ending in ${id.slice(-8)}`} iconOnly />
                      </span>
                      <span className="cell-sub">{model ?? endpoint}</span>
                    </>
                  ),
                },
                {
                  key: 'status',
                  header: 'Status',
                  cell: (batch) => (
                    <div>
                      <Badge tone={TONES[batch.status]}>{batch.status.replaceAll('_', ' ')}</Badge>
                      {batch.problem !== null && <span className="cell-sub">{batch.problem}</span>}
                    </div>
                  ),
                },
                { key: 'progress', header: 'Progress', cell: (batch) => <Progress batch={batch} /> },
                { key: 'created', header: 'Created', cell: ({ created_at: at }) => <Moment at={at} precise={false} /> },
                {
                  key: 'expires',
                  header: 'Expires',
                  cell: ({ expires_at: at, ended_at: ended }) => (
                    <span className="nowrap">
                      {ended === null ? <Time at={at} /> : <span className="muted">ended</span>}
                    </span>
                  ),
                },
                { key: 'files', header: 'Files', cell: (batch) => <BatchFiles batch={batch} /> },
                {
                  key: 'actions',
                  header: 'Actions',
                  actions: true,
                  cell: (batch) =>
                    status === 'active' &&
                    batch.ended_at === null &&
                    batch.status !== 'cancelling' && (
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Cancel batch ${batch.id.slice(-8)}`}
                        onClick={() => setCancelling(batch)}
                      >
                        Cancel
                      </Button>
                    ),
                },
              ]}
            />
          )}
        </ListView>
        {cancelling !== null && (
          <ConfirmDialog
            title="Cancel this batch?"
            confirm="Cancel batch"
            danger
            onConfirm={() => cancel(cancelling)}
            onClose={() => setCancelling(null)}
          >
            <p>
              Unfinished requests of <Code>{cancelling.id}</Code> are cancelled. The results so far are kept.
            </p>
          </ConfirmDialog>
        )}
      </Panel>
    </>
  );
}

function Progress({ batch: { total, counts } }: { batch: BatchListItem }): ReactNode {
  const ended = counts.succeeded + counts.errored + counts.canceled + counts.expired;
  const others = (
    [
      [counts.errored, 'failed'],
      [counts.canceled, 'cancelled'],
      [counts.expired, 'expired'],
    ] as const
  ).filter(([n]) => n > 0);
  if (total === 0) return <span className="muted">none yet</span>;
  return (
    <>
      <span className="nowrap">
        {count(ended)} of {count(total)}
      </span>
      {others.length > 0 && (
        <span className="cell-sub">{others.map(([n, what]) => `${count(n)} ${what}`).join(', ')}</span>
      )}
    </>
  );
}

function BatchFiles({ batch }: { batch: BatchListItem }): ReactNode {
  const { path } = useOrganization();
  const files = (
    [
      ['Input', batch.input_file_id],
      ['Output', batch.output_file_id],
      ['Errors', batch.error_file_id],
    ] as const
  ).filter((file): file is readonly ['Input' | 'Output' | 'Errors', string] => file[1] !== null);
  if (files.length === 0) return <span className="muted">none</span>;
  return (
    <ul className="pairs">
      {files.map(([label, id]) => (
        <li key={label}>
          <a href={`${API}${path}/files/${id}/content`} download aria-label={`${label} of batch ${batch.id.slice(-8)}`}>
            {label}
          </a>
        </li>
      ))}
    </ul>
  );
}
