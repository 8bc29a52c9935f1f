// Model lifecycle for operators: loaded or unloaded, and active, deprecated (with dates and a successor) or retired.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { OperatorModel, OperatorModelPatch } from '../../../../shared/wire/models.js';
import { api, fieldError, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Select, TextField } from '../components/field.js';
import { Code, PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { DiskPanel } from '../operator/disk-panel.js';
import { UnserveButton } from '../operator/serve-dialog.js';
import { bytes, date, short } from '../format.js';

const KEY = ['operator', 'models'];

export function OperatorModels(): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<ListPage<OperatorModel>>('/operator/models', {}, signal),
    refetchInterval: ({ state: { data } }) =>
      data?.data.some(({ state }) => state === 'loading') === true ? 1_000 : 5_000,
  });
  const [chosen, setChosen] = useState<OperatorModel | null>(null);
  return (
    <>
      <PageHeader title="Model lifecycle">
        Unloading a model frees its memory. Deprecated models stay available, and their responses include the
        deprecation dates. Requests for a retired model return a 404 error that names its successor.
      </PageHeader>
      <Panel flush>
        <Loaded query={query} loading={<div className="panel-pad" />}>
          {({ data }) =>
            data.length === 0 ? (
              <EmptyState icon="models" title="No models are configured" />
            ) : (
              <Table
                caption="Models"
                rows={data}
                rowKey={({ id }) => id}
                rowClass={({ lifecycle }) => (lifecycle === 'retired' ? 'dim' : undefined)}
                columns={[
                  { key: 'name', header: 'Model', heading: true, cell: (model) => <Names model={model} /> },
                  {
                    key: 'state',
                    header: 'State',
                    cell: (model) => (
                      <div>
                        <StateBadge {...model} />
                        {model.problem !== null && <span className="cell-sub">{model.problem}</span>}
                      </div>
                    ),
                  },
                  { key: 'weights', header: 'Weights', cell: weights },
                  {
                    key: 'lifecycle',
                    header: 'Lifecycle',
                    cell: ({ lifecycle }) => <LifecycleBadge lifecycle={lifecycle} />,
                  },
                  { key: 'dates', header: 'Dates', cell: (model) => <Dates model={model} /> },
                  {
                    key: 'successor',
                    header: 'Successor',
                    cell: ({ successor }) =>
                      successor === null ? (
                        <span className="muted">none</span>
                      ) : (
                        <span className="nowrap">
                          <Code>{successor}</Code>
                        </span>
                      ),
                  },
                  {
                    key: 'actions',
                    header: 'Actions',
                    actions: true,
                    cell: (model) => (
                      <>
                        <LoadButton model={model} />
                        <UnserveButton model={model} />
                        <Button size="small" aria-label={`Change ${model.id}`} onClick={() => setChosen(model)}>
                          Change
                        </Button>
                      </>
                    ),
                  },
                ]}
              />
            )
          }
        </Loaded>
      </Panel>
      <DiskPanel />
      {chosen !== null && (
        <LifecycleDialog
          model={chosen}
          others={(query.data?.data ?? []).filter(({ id }) => id !== chosen.id)}
          onClose={() => setChosen(null)}
        />
      )}
    </>
  );
}

const STATES: Record<OperatorModel['state'], { tone: 'ok' | 'warn' | 'danger' | 'neutral'; label: string }> = {
  ready: { tone: 'ok', label: 'Ready' },
  loading: { tone: 'warn', label: 'Loading' },
  failed: { tone: 'danger', label: 'Failed' },
  idle: { tone: 'neutral', label: 'Loads on demand' },
  unloaded: { tone: 'neutral', label: 'Not loaded' },
};
function StateBadge({ state, load_progress: progress }: OperatorModel): ReactNode {
  return (
    <Badge tone={STATES[state].tone} dot>
      {STATES[state].label}
      {progress !== null && ` ${Math.floor(100 * progress)} %`}
    </Badge>
  );
}

function Names({ model }: { model: OperatorModel }): ReactNode {
  return (
    <div className="nowrap">
      <span className="cell-main">{model.display_name}</span>
      {model.display_name !== model.id && (
        <span className="cell-sub">
          <Code>{model.id}</Code>
        </span>
      )}
      {model.source !== null && <span className="cell-sub">{model.source}</span>}
    </div>
  );
}

function weights({ architecture, parameters, quantization, file_bytes: size }: OperatorModel): string {
  const facts = [
    architecture,
    parameters === null ? null : `${short(parameters)} parameters`,
    quantization,
    size === null ? null : bytes(size),
  ];
  return facts.filter((fact) => fact !== null).join(', ') || '–';
}

function LifecycleBadge({ lifecycle }: { lifecycle: OperatorModel['lifecycle'] }): ReactNode {
  return lifecycle === 'active' ? (
    <Badge tone="ok">Active</Badge>
  ) : lifecycle === 'deprecated' ? (
    <Badge tone="warn">Deprecated</Badge>
  ) : (
    <Badge>Retired</Badge>
  );
}

function Dates({ model }: { model: OperatorModel }): ReactNode {
  if (model.deprecated_at === null && model.retires_at === null) return <span className="muted">none</span>;
  return (
    <div className="nowrap">
      {model.deprecated_at !== null && <span className="cell-sub">deprecated {date(model.deprecated_at)}</span>}
      {model.retires_at !== null && <span className="cell-sub">retires {date(model.retires_at)}</span>}
    </div>
  );
}

/** Unloads a model to free its memory, or loads it. */
function LoadButton({ model: { id, state } }: { model: OperatorModel }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  if (state !== 'ready' && state !== 'idle' && state !== 'unloaded' && state !== 'failed') return null;
  const set = (action: 'drain' | 'load'): void => {
    setBusy(true);
    setFailure(null);
    api
      .post<OperatorModel>(`/operator/models/${encodeURIComponent(id)}/${action}`)
      .then(
        async () => {
          await client.invalidateQueries({ queryKey: KEY });
          toast(action === 'drain' ? `Unloading ${id}` : `Loading ${id}`);
          setAsking(false);
        },
        (error: unknown) => {
          setFailure(error);
          if (action === 'load') toast(messageOf(error));
        },
      )
      .finally(() => setBusy(false));
  };
  if (state === 'unloaded' || state === 'failed')
    return (
      <Button size="small" aria-label={`Load ${id}`} busy={busy} onClick={() => set('load')}>
        Load
      </Button>
    );
  return (
    <>
      <Button size="small" aria-label={`Unload ${id}`} onClick={() => setAsking(true)}>
        Unload
      </Button>
      {asking && (
        <Dialog
          title={`Unload ${id}?`}
          onClose={() => setAsking(false)}
          onSubmit={() => set('drain')}
          footer={
            <>
              <Button onClick={() => setAsking(false)}>Cancel</Button>
              <Button type="submit" variant="danger" busy={busy}>
                Unload
              </Button>
            </>
          }
        >
          <p>
            New requests for {id} return 503 until it is loaded again. Running requests can finish first. The memory is
            then freed, unless another served name uses the same file.
          </p>
          {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
        </Dialog>
      )}
    </>
  );
}

const NOTICE_DAYS = 90;
const dayOf = (time: string | null): string => time?.slice(0, 10) ?? '';
const timeOf = (day: string): string | null => (day === '' ? null : `${day}T00:00:00Z`);
const later = (day: string, days: number): string =>
  new Date(Date.parse(`${day === '' ? new Date().toISOString().slice(0, 10) : day}T00:00:00Z`) + days * 86_400_000)
    .toISOString()
    .slice(0, 10);

function LifecycleDialog({
  model,
  others,
  onClose,
}: {
  model: OperatorModel;
  others: readonly OperatorModel[];
  onClose: () => void;
}): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [lifecycle, setLifecycle] = useState(model.lifecycle);
  const [deprecated, setDeprecated] = useState(dayOf(model.deprecated_at));
  const [retires, setRetires] = useState(dayOf(model.retires_at));
  const [successor, setSuccessor] = useState(model.successor ?? '');
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const today = new Date().toISOString().slice(0, 10);

  const save = (): void => {
    setBusy(true);
    setFailure(null);
    const dates =
      lifecycle === 'active'
        ? { deprecated_at: null, retires_at: null }
        : { deprecated_at: sameDay(deprecated, model.deprecated_at), retires_at: sameDay(retires, model.retires_at) };
    const patch: OperatorModelPatch = { lifecycle, ...dates, successor: successor === '' ? null : successor };
    api.patch<OperatorModel>(`/operator/models/${encodeURIComponent(model.id)}`, patch).then(
      async (changed) => {
        await client.invalidateQueries({ queryKey: KEY });
        void client.invalidateQueries({ queryKey: ['organization'] });
        toast(`${model.id} is ${changed.lifecycle}`);
        onClose();
      },
      (error: unknown) => {
        setFailure(error);
        setBusy(false);
      },
    );
  };
  const ofField = ['deprecated_at', 'retires_at', 'successor'].some((field) => fieldError(failure, field) !== null);
  return (
    <Dialog
      title={`Lifecycle of ${model.id}`}
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            variant={lifecycle === 'retired' && model.lifecycle !== 'retired' ? 'danger' : 'primary'}
            busy={busy}
          >
            Save
          </Button>
        </>
      }
    >
      <Segmented
        label="Lifecycle"
        value={lifecycle}
        onChange={(next) => {
          setLifecycle(next);
          if (next === 'deprecated' && deprecated === '') {
            setDeprecated(today);
            if (retires === '') setRetires(later(today, NOTICE_DAYS + 1));
          }
        }}
        options={[
          { value: 'active', label: 'Active' },
          { value: 'deprecated', label: 'Deprecated' },
          { value: 'retired', label: 'Retired' },
        ]}
      />
      {lifecycle !== 'active' && (
        <div className="form-row">
          <TextField
            type="date"
            label="Deprecated from"
            value={deprecated}
            error={fieldError(failure, 'deprecated_at')}
            onChange={(event) => setDeprecated(event.target.value)}
          />
          <TextField
            type="date"
            label="Retires on"
            optional
            value={retires}
            error={fieldError(failure, 'retires_at')}
            hint={`At least ${NOTICE_DAYS} days later`}
            onChange={(event) => setRetires(event.target.value)}
          />
        </div>
      )}
      {lifecycle !== 'active' && (
        <Select
          label="Successor"
          optional
          value={successor}
          error={fieldError(failure, 'successor')}
          hint="Named in the error that requests for the retired model receive."
          onChange={(event) => setSuccessor(event.target.value)}
          options={[{ value: '', label: 'none' }, ...others.map(({ id }) => ({ value: id, label: id }))]}
        />
      )}
      {lifecycle === 'retired' && model.lifecycle !== 'retired' && (
        <Notice tone="warn">Requests for {model.id} return 404 from now on.</Notice>
      )}
      {failure !== null && !ofField && <Notice tone="danger">{messageOf(failure)}</Notice>}
    </Dialog>
  );
}

/** The time of day is kept if the date did not change. */
function sameDay(day: string, before: string | null): string | null {
  return before !== null && dayOf(before) === day ? before : timeOf(day);
}
