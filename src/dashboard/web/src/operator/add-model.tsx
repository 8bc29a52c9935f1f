// Adds models: search the hub, or name a repository, then download. Shows the downloads in progress.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DiskState, HubModel, ModelPull } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Code, Meter, Panel, Time } from '../components/page.js';
import { ErrorState, Notice, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { bytes, short } from '../format.js';

/** Matches a repository, optionally with weights and a revision, as opposed to search words. */
const isReference = (text: string): boolean => /^(hf:)?[^\s/]+\/[^\s/]/.test(text.trim());

/** `children`: suggestions shown before the first search. `onPull` starts a download. */
export function AddModel({ disk, children }: { disk: DiskState; children?: ReactNode }): ReactNode {
  const [text, setText] = useState('');
  const [searched, setSearched] = useState<string | null>(null);
  const pull = usePull();
  const submit = (): void => {
    const wanted = text.trim();
    if (wanted === '') return;
    if (!isReference(wanted)) {
      pull.action.clear();
      setSearched(wanted);
      return;
    }
    void pull.start(wanted).then((went) => {
      if (went) setText('');
    });
  };
  return (
    <Panel title="Add a model" lead={`Models come from ${disk.endpoint}. Only repositories with GGUF files are found.`}>
      <Form label="Add a model" onSubmit={submit}>
        <FormError action={pull.action} fields={['model']} />
        <div className="search-row">
          <TextField
            label="Search the hub, or enter OWNER/REPO"
            name="model"
            placeholder="qwen3 instruct, or OWNER/REPO:Q4_K_M"
            autoComplete="off"
            spellCheck={false}
            value={text}
            error={pull.action.errorOf('model')}
            onChange={(event) => {
              setText(event.target.value);
              if (event.target.value.trim() === '') setSearched(null);
            }}
            hint="Without a quantization, the largest one that fits into half of the memory is chosen."
          />
          <Button type="submit" variant="primary" busy={pull.action.busy} disabled={text.trim() === ''}>
            {isReference(text) ? 'Download' : 'Search'}
          </Button>
        </div>
      </Form>
      {searched === null ? children : <Matches text={searched} disk={disk} onPull={pull.start} />}
      {disk.pulls.map((one) => (
        <PullLine key={one.id} pull={one} />
      ))}
    </Panel>
  );
}

function usePull(): { action: ReturnType<typeof useAction>; start: (model: string) => Promise<boolean> } {
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  return {
    action,
    start: (model) =>
      action.run(async () => {
        const started = await api.post<ModelPull>('/operator/pulls', { model });
        toast(`Downloading ${started.model}`);
        await client.invalidateQueries({ queryKey: ['operator', 'disk'] });
      }),
  };
}

function Matches({
  text,
  disk,
  onPull,
}: {
  text: string;
  disk: DiskState;
  onPull: (model: string) => Promise<boolean>;
}): ReactNode {
  const query = useQuery({
    queryKey: ['operator', 'hub', text],
    queryFn: async ({ signal }) =>
      (await api.get<ListPage<HubModel>>('/operator/hub/models', { q: text }, signal)).data,
    staleTime: 60_000,
    retry: false,
  });
  if (query.isError)
    return (
      <ErrorState
        title="The hub cannot be searched"
        error={query.error}
        onRetry={() => {
          void query.refetch();
        }}
      />
    );
  if (query.data === undefined) return <Skeleton rows={4} height={20} />;
  if (query.data.length === 0)
    return <p className="muted">No repository with GGUF files matches “{text}”. Try fewer words.</p>;
  const has = (model: string): boolean => disk.models.some((one) => one.model.startsWith(`${model}:`));
  const isPulling = (model: string): boolean =>
    disk.pulls.some((one) => one.state === 'running' && (one.model === model || one.model.startsWith(`${model}:`)));
  return (
    <Table
      caption={`Models on the hub that match ${text}`}
      rows={query.data}
      rowKey={({ model }) => model}
      columns={[
        {
          key: 'model',
          header: 'Model',
          heading: true,
          cell: ({ model, gated }) => (
            <span className="row">
              <a href={`${disk.endpoint}/${model}`} target="_blank" rel="noreferrer">
                <Code>{model}</Code>
              </a>
              {gated && <Badge tone="warn">Terms to accept</Badge>}
              {has(model) && <Badge tone="ok">On disk</Badge>}
            </span>
          ),
        },
        { key: 'downloads', header: 'Downloads', numeric: true, cell: ({ downloads }) => short(downloads) },
        { key: 'likes', header: 'Likes', numeric: true, cell: ({ likes }) => short(likes) },
        { key: 'updated', header: 'Updated', cell: ({ updated_at: at }) => <Time at={at} never="–" /> },
        {
          key: 'actions',
          header: 'Actions',
          actions: true,
          cell: ({ model }) => (
            <Button
              size="small"
              aria-label={`Download ${model}`}
              disabled={isPulling(model)}
              onClick={() => void onPull(model)}
            >
              Download
            </Button>
          ),
        },
      ]}
    />
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
    void api
      .delete(`/operator/pulls/${pull.id}`)
      .then(() => client.invalidateQueries({ queryKey: ['operator', 'disk'] }));
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
