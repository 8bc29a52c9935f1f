// Models on disk: shows how much memory each model needs, and lets operators serve or delete it.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DiskModel, DiskRemoval, DiskState } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Code, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { bytes, short } from '../format.js';
import { ServeDialog } from './serve-dialog.js';

const KEY = ['operator', 'disk'];

export const useDisk = (): UseQueryResult<DiskState> =>
  useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<DiskState>('/operator/disk', {}, signal),
    refetchInterval: ({ state }) =>
      state.data?.pulls.some((pull) => pull.state === 'running') === true ? 1_000 : 15_000,
  });

export function DiskPanel({ disk }: { disk: DiskState }): ReactNode {
  return (
    <Panel
      flush
      title="On disk"
      lead={
        <>
          {disk.free_bytes !== null && (
            <>
              {bytes(disk.free_bytes)} of disk free in <Code>{disk.folder}</Code>.{' '}
            </>
          )}
          {bytes(disk.available_memory_bytes)} of {bytes(disk.memory_bytes)} memory free.
        </>
      }
    >
      {disk.models.length === 0 ? (
        <EmptyState icon="models" title="No models on disk yet">
          Download one above, or on the server with <code>monolith pull OWNER/REPO</code>.
        </EmptyState>
      ) : (
        <Table
          caption="Models on disk"
          rows={disk.models}
          rowKey={({ path }) => path}
          rowClass={({ is_old: old }) => (old ? 'dim' : undefined)}
          columns={[
            { key: 'model', header: 'Model', heading: true, cell: (model) => <DiskName model={model} /> },
            {
              key: 'weights',
              header: 'Weights',
              cell: ({ architecture, parameters, file_bytes: size }) =>
                [architecture, parameters === null ? null : `${short(parameters)} parameters`, bytes(size)]
                  .filter((one) => one !== null)
                  .join(', '),
            },
            {
              key: 'memory',
              header: 'Memory',
              numeric: true,
              cell: ({ memory_bytes: memory }) => (memory === null ? '–' : bytes(memory)),
            },
            { key: 'fits', header: 'Fits', cell: (model) => <Fits model={model} /> },
            {
              key: 'actions',
              header: 'Actions',
              actions: true,
              cell: (model) => (
                <>
                  <ServeButton model={model} disk={disk} />
                  <DeleteButton model={model} />
                </>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

/** Shown for models that this machine can load. */
function ServeButton({ model, disk }: { model: DiskModel; disk: DiskState }): ReactNode {
  const [asking, setAsking] = useState(false);
  if (model.memory_bytes === null || model.fits === 'no' || model.is_old) return null;
  return (
    <>
      <Button size="small" aria-label={`Serve ${model.model}`} onClick={() => setAsking(true)}>
        Serve
      </Button>
      {asking && <ServeDialog model={model} disk={disk} onClose={() => setAsking(false)} />}
    </>
  );
}

/** Button that deletes a model's files. It is not shown for a served model. */
function DeleteButton({ model: { model, file_bytes: size, served_as: served } }: { model: DiskModel }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  if (served !== null) return null;
  const remove = async (): Promise<void> => {
    const { freed_bytes: freed } = await api.delete<DiskRemoval>(`/operator/disk?model=${encodeURIComponent(model)}`);
    await client.invalidateQueries({ queryKey: KEY });
    toast(`${model} deleted, ${bytes(freed)} freed`);
  };
  return (
    <>
      <Button size="small" variant="ghost" aria-label={`Delete ${model}`} onClick={() => setAsking(true)}>
        Delete
      </Button>
      {asking && (
        <ConfirmDialog
          title={`Delete ${model}?`}
          confirm="Delete files"
          danger
          onConfirm={remove}
          onClose={() => setAsking(false)}
        >
          <p>
            This deletes {bytes(size)} from the hub cache, which other programs on this machine may use too. You can
            download the model again.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

function DiskName({ model: { model, served_as: served, is_old: old } }: { model: DiskModel }): ReactNode {
  const flag = `--model NAME=hf:${model}`;
  return (
    <div>
      <span className="cell-main">
        <Code>{model}</Code>
        <CopyButton text={flag} label={`Copy ${flag}`} iconOnly />
      </span>
      {served !== null && <span className="cell-sub">served as {served}</span>}
      {old && <span className="cell-sub">from an older revision</span>}
    </div>
  );
}

const FITS: Record<'yes' | 'later' | 'no', { tone: Tone; label: string }> = {
  yes: { tone: 'ok', label: 'Yes' },
  later: { tone: 'warn', label: 'Not now' },
  no: { tone: 'danger', label: 'No' },
};

function Fits({ model: { fits, problem } }: { model: DiskModel }): ReactNode {
  if (fits === null) return <span className="cell-sub">{problem ?? 'unknown'}</span>;
  return <Badge tone={FITS[fits].tone}>{FITS[fits].label}</Badge>;
}
