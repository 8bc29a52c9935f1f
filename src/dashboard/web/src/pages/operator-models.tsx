// The operators' models page: lists the served models with their state and lifecycle, adds models, and lists the models
// on disk.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { OperatorModel } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Code, PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import { bytes, date, short } from '../format.js';
import { AddModel } from '../operator/add-model.js';
import { DiskPanel, useDisk } from '../operator/disk-panel.js';
import { LifecycleDialog } from '../operator/lifecycle-dialog.js';
import { LoadButton } from '../operator/load-button.js';
import { RecommendedModels } from '../operator/recommended-models.js';
import { UnserveButton } from '../operator/serve-dialog.js';

const KEY = ['operator', 'models'];

export function OperatorModels(): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<ListPage<OperatorModel>>('/operator/models', {}, signal),
    refetchInterval: ({ state: { data } }) =>
      data?.data.some(({ state }) => state === 'loading') === true ? 1_000 : 5_000,
  });
  const [chosen, setChosen] = useState<OperatorModel | null>(null);
  const disk = useDisk();
  return (
    <>
      <PageHeader title="Manage models">
        The models that this server offers, and the models on its disk. Unloading a model frees its memory.
      </PageHeader>
      <Panel
        flush
        title="Served"
        lead="Deprecated models stay available, and their responses contain the deprecation dates. Requests for a retired model return a 404 error that names its successor."
      >
        <Loaded query={query} loading={<div className="panel-pad" />}>
          {({ data }) =>
            data.length === 0 ? (
              <EmptyState icon="models" title="No models are served">
                Download one below and serve it, or start the server with{' '}
                <code>monolith serve --model NAME=hf:OWNER/REPO</code>.
              </EmptyState>
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
                  { key: 'weights', header: 'Weights', cell: (model) => <Weights model={model} /> },
                  { key: 'lifecycle', header: 'Lifecycle', cell: (model) => <Lifecycle model={model} /> },
                  {
                    key: 'actions',
                    header: 'Actions',
                    actions: true,
                    cell: (model) => (
                      <>
                        <LoadButton
                          model={model}
                          onDisk={disk.data?.models.find(({ served_as: name }) => name === model.id)}
                          disk={disk.data}
                        />
                        <UnserveButton model={model} />
                        <Button
                          size="small"
                          variant="ghost"
                          aria-label={`Lifecycle of ${model.id}`}
                          onClick={() => setChosen(model)}
                        >
                          Lifecycle
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
      <Loaded query={disk} loading={<Skeleton rows={4} height={24} />}>
        {(state) => (
          <>
            <AddModel disk={state}>
              <RecommendedModels disk={state} />
            </AddModel>
            <DiskPanel disk={state} />
          </>
        )}
      </Loaded>
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

function Weights({ model }: { model: OperatorModel }): ReactNode {
  const { architecture, parameters, quantization, file_bytes: size, upstream } = model;
  if (upstream !== null) return upstream === 1 ? '1 upstream server' : `${upstream} upstream servers`;
  const facts = [parameters === null ? null : `${short(parameters)} parameters`, quantization].filter(Boolean);
  const more = [architecture, size === null ? null : bytes(size)].filter(Boolean);
  return (
    <div>
      <span className="nowrap">{facts.join(', ') || '–'}</span>
      {more.length > 0 && <span className="cell-sub">{more.join(', ')}</span>}
    </div>
  );
}

function Lifecycle({ model }: { model: OperatorModel }): ReactNode {
  const { lifecycle, deprecated_at: deprecated, retires_at: retires, successor } = model;
  return (
    <div>
      {lifecycle === 'active' ? (
        <Badge tone="ok">Active</Badge>
      ) : lifecycle === 'deprecated' ? (
        <Badge tone="warn">Deprecated</Badge>
      ) : (
        <Badge>Retired</Badge>
      )}
      {deprecated !== null && <span className="cell-sub nowrap">deprecated {date(deprecated)}</span>}
      {retires !== null && <span className="cell-sub nowrap">retires {date(retires)}</span>}
      {successor !== null && (
        <span className="cell-sub">
          use <Code>{successor}</Code>
        </span>
      )}
    </div>
  );
}
