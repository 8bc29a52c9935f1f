// Models on disk, whether each fits in memory, and downloads from the hub.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ModelPull } from '../../../../shared/wire/models.js';
import type { DiskModel, DiskState } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Code, Meter, Panel } from '../components/page.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { bytes, short } from '../format.js';
import { ServeDialog } from './serve-dialog.js';

const KEY = ['operator', 'disk'];

export function DiskPanel(): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<DiskState>('/operator/disk', {}, signal),
    refetchInterval: ({ state }) =>
      state.data?.pulls.some((pull) => pull.state === 'running') === true ? 1_000 : 15_000,
  });
  return (
    <Panel
      title="On disk"
      lead="Models that this server or other programs downloaded from the hub. You can serve any of them under a name of your choice."
    >
      <Loaded query={query} loading={<div className="panel-pad" />}>
        {(disk) => (
          <>
            <PullForm endpoint={disk.endpoint} />
            {disk.pulls.map((pull) => (
              <PullLine key={pull.id} pull={pull} />
            ))}
            <p className="hint">
              {disk.free_bytes !== null && (
                <>
                  {bytes(disk.free_bytes)} free in <Code>{disk.folder}</Code>.{' '}
                </>
              )}
              Memory: {bytes(disk.available_memory_bytes)} of {bytes(disk.memory_bytes)} free.
            </p>
            {disk.models.length === 0 ? (
              <EmptyState icon="models" title="No models on disk yet" />
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
                    cell: ({ memory_bytes: memory }) => (memory === null ? '–' : bytes(memory)),
                  },
                  { key: 'fits', header: 'Fits', cell: (model) => <Fits model={model} /> },
                  { key: 'actions', header: 'Actions', actions: true, cell: (model) => <ServeButton model={model} /> },
                ]}
              />
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

function PullForm({ endpoint }: { endpoint: string }): ReactNode {
  const [model, setModel] = useState('');
  const client = useQueryClient();
  const action = useAction();
  const start = (): void => {
    void action
      .run(async () => {
        await api.post<ModelPull>('/operator/pulls', { model: model.trim() });
        await client.invalidateQueries({ queryKey: KEY });
      })
      .then((went) => {
        if (went) setModel('');
      });
  };
  return (
    <Form label="Download a model" onSubmit={start}>
      <FormError action={action} fields={['model']} />
      <TextField
        label="Download a model"
        name="model"
        placeholder="OWNER/REPO:Q4_K_M"
        value={model}
        error={action.errorOf('model')}
        onChange={(event) => setModel(event.target.value)}
        hint={`From ${endpoint}. Without a quantization, the best one that fits into memory is chosen.`}
      />
      <div>
        <Button type="submit" variant="primary" busy={action.busy} disabled={model.trim() === ''}>
          Download
        </Button>
      </div>
    </Form>
  );
}

const PULL_TEXTS: Record<ModelPull['state'], { tone: Tone; label: string }> = {
  running: { tone: 'warn', label: 'Downloading' },
  done: { tone: 'ok', label: 'Done' },
  failed: { tone: 'danger', label: 'Failed' },
  stopped: { tone: 'neutral', label: 'Stopped' },
};

function PullLine({ pull }: { pull: ModelPull }): ReactNode {
  const client = useQueryClient();
  const { tone, label } = PULL_TEXTS[pull.state];
  const total = pull.total_bytes ?? 0;
  const text = total === 0 ? 'Listing files' : `${bytes(pull.bytes)} of ${bytes(total)}`;
  const stop = (): void => {
    void api.delete(`/operator/pulls/${pull.id}`).then(() => client.invalidateQueries({ queryKey: KEY }));
  };
  return (
    <div className="pull-line">
      <div className="row">
        <Code>{pull.model}</Code>
        {pull.quantization !== null && <span className="muted">{pull.quantization}</span>}
        <Badge tone={tone} dot>
          {label}
        </Badge>
        {pull.state === 'running' && (
          <>
            <span className="muted">{text}</span>
            <Button size="small" aria-label={`Stop downloading ${pull.model}`} onClick={stop}>
              Stop
            </Button>
          </>
        )}
      </div>
      {pull.state === 'running' && total > 0 && (
        <Meter label={`${pull.model} downloaded`} value={pull.bytes} max={total} text={text} />
      )}
      {pull.error !== null && <Notice tone="danger">{pull.error}</Notice>}
    </div>
  );
}

/** Shown for models that this machine can load. */
function ServeButton({ model }: { model: DiskModel }): ReactNode {
  const [asking, setAsking] = useState(false);
  if (model.memory_bytes === null || model.fits === 'no' || model.is_old) return null;
  return (
    <>
      <Button size="small" aria-label={`Serve ${model.model}`} onClick={() => setAsking(true)}>
        Serve
      </Button>
      {asking && <ServeDialog model={model} onClose={() => setAsking(false)} />}
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
