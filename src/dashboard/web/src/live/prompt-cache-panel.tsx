// Prompt-cache panel: shows hit rates by tier, and sizes and rates per model and organization. Clears the cache, and
// pins and unpins prompts.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import type {
  CachedModel,
  CachedOrganization,
  CacheUseTotals,
  PinnedPrompt,
  PromptCacheCleared,
  PromptCacheState,
} from '../../../../shared/wire/prompt-cache.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Code, Panel } from '../components/page.js';
import { ErrorState } from '../components/states.js';
import { Table } from '../components/table.js';
import type { Column } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { bytes, count, duration, percent } from '../format.js';

const KEY = ['operator', 'prompt-cache'];
const LOOK_MS = 5_000;

interface Row {
  readonly id: string;
  readonly name: string;
  readonly model: CachedModel;
  /** Null means all organizations of the model. */
  readonly organization: CachedOrganization | null;
}

export function PromptCachePanel({ paused }: { paused: boolean }): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<PromptCacheState>('/operator/prompt-cache', {}, signal),
    refetchInterval: paused ? false : LOOK_MS,
  });
  const rates = useRates(query.data, query.dataUpdatedAt);
  if (query.data === undefined)
    return query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : null;
  const { disk, models, pinned, max_pinned: max } = query.data;
  return (
    <>
      <Panel
        flush
        title="Prompt cache"
        lead={
          disk === null ? (
            <>
              KV pages are not kept on disk (<Code>kv.disk</Code>), so cached tokens are not counted here.
            </>
          ) : (
            <>
              {bytes(disk.bytes)} of {bytes(disk.max_bytes)} on disk. Counted since the server started.
            </>
          )
        }
        actions={<ClearButton model={null} />}
      >
        <Table
          caption="Prompt cache by model and organization"
          rows={models.flatMap(rowsOf)}
          rowKey={({ id }) => id}
          rowClass={({ organization }) => (organization === null ? undefined : 'dim')}
          columns={[
            {
              key: 'name',
              header: 'Model, organization',
              heading: true,
              cell: ({ name, organization }) => (organization === null ? name : <>&nbsp;&nbsp;{name}</>),
            },
            figure('From memory', ({ use }) => shareOf(use, use.memory_tokens)),
            figure('From disk', ({ use }) => shareOf(use, use.disk_tokens)),
            figure('Time saved', ({ use }) => duration(1000 * use.saved_s)),
            figure('On disk', ({ disk: stored }) => bytes(stored.bytes)),
            {
              key: 'read',
              header: 'Read, per s',
              numeric: true,
              cell: ({ id }) => bytes(rates.get(id)?.read ?? 0),
            },
            {
              key: 'written',
              header: 'Written, per s',
              numeric: true,
              cell: ({ id }) => bytes(rates.get(id)?.written ?? 0),
            },
            {
              key: 'actions',
              header: 'Actions',
              actions: true,
              cell: ({ model: { names }, organization }) =>
                organization === null && names[0] !== undefined && <ClearButton model={names[0]} />,
            },
          ]}
        />
      </Panel>
      {pinned.length > 0 && <PinnedPanel pinned={pinned} max={max} />}
    </>
  );
}

function rowsOf(model: CachedModel): Row[] {
  const name = model.names.length === 0 ? model.file : model.names.join(', ');
  return [
    { id: model.file, name, model, organization: null },
    ...model.organizations.map((organization) => ({
      id: `${model.file}\n${organization.id}`,
      name: organization.name ?? organization.id,
      model,
      organization,
    })),
  ];
}

const figure = (header: string, of: (one: CachedModel | CachedOrganization) => string): Column<Row> => ({
  key: header,
  header,
  numeric: true,
  cell: ({ model, organization }) => of(organization ?? model),
});

const shareOf = ({ prompt_tokens: all }: CacheUseTotals, tokens: number): string =>
  percent(all === 0 ? null : tokens / all);

interface Rate {
  readonly read: number;
  readonly written: number;
}

/**
 * Returns the read and write rates of each table row in bytes per second, computed from the two latest states of the
 * cache.
 */
function useRates(state: PromptCacheState | undefined, at: number): ReadonlyMap<string, Rate> {
  const before = useRef<{ state: PromptCacheState; at: number } | null>(null);
  const [rates, setRates] = useState<ReadonlyMap<string, Rate>>(new Map());
  useEffect(() => {
    if (state === undefined || before.current?.at === at) return;
    const earlier = before.current;
    before.current = { state, at };
    if (earlier === null) return;
    const seconds = Math.max(1e-3, (at - earlier.at) / 1000);
    const old = new Map(earlier.state.models.flatMap(rowsOf).map((row) => [row.id, useOf(row)]));
    setRates(
      new Map(
        state.models.flatMap(rowsOf).map((row) => {
          const now = useOf(row);
          const then = old.get(row.id);
          const per = (a: number, b: number | undefined): number => Math.max(0, a - (b ?? a)) / seconds;
          return [
            row.id,
            { read: per(now.read_bytes, then?.read_bytes), written: per(now.written_bytes, then?.written_bytes) },
          ];
        }),
      ),
    );
  }, [state, at]);
  return rates;
}

const useOf = ({ model, organization }: Row): CacheUseTotals => (organization ?? model).use;

function ClearButton({ model }: { model: string | null }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const clear = async (): Promise<void> => {
    const query = model === null ? '' : `?model=${encodeURIComponent(model)}`;
    const { disk_bytes: erased } = await api.delete<PromptCacheCleared>(`/operator/prompt-cache${query}`);
    await client.invalidateQueries({ queryKey: KEY });
    toast(`Prompt cache emptied, ${bytes(erased)} erased on disk`);
  };
  const what = model === null ? 'the prompt cache' : `the prompt cache of ${model}`;
  return (
    <>
      <Button size="small" variant="ghost" aria-label={`Empty ${what}`} onClick={() => setAsking(true)}>
        Empty
      </Button>
      {asking && (
        <ConfirmDialog
          title={`Empty ${what}?`}
          confirm="Empty"
          danger
          onConfirm={clear}
          onClose={() => setAsking(false)}
        >
          <p>
            The next request of each conversation computes its whole prompt again. Pages that running requests use, and
            pinned prompts, stay.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

const TONES: Readonly<Record<PinnedPrompt['state'], Tone>> = {
  pinned: 'ok',
  partial: 'warn',
  waiting: 'neutral',
  failed: 'danger',
};

function PinnedPanel({ pinned, max }: { pinned: readonly PinnedPrompt[]; max: number }): ReactNode {
  return (
    <Panel flush title="Pinned prompts" lead={`${count(pinned.length)} of ${count(max)}`}>
      <Table
        caption="Pinned prompts"
        rows={pinned}
        rowKey={({ id }) => id}
        columns={[
          { key: 'prompt', header: 'Prompt', heading: true, cell: ({ start }) => start },
          { key: 'model', header: 'Model', cell: ({ model }) => model },
          {
            key: 'organization',
            header: 'Organization',
            cell: ({ organization, organization_name: name }) => name ?? organization,
          },
          {
            key: 'tokens',
            header: 'Tokens',
            numeric: true,
            cell: ({ tokens }) => (tokens === null ? '–' : count(tokens)),
          },
          {
            key: 'state',
            header: 'State',
            cell: ({ state, problem }) => (
              <Badge tone={TONES[state]}>
                <span title={problem ?? undefined}>{state}</span>
              </Badge>
            ),
          },
          { key: 'actions', header: 'Actions', actions: true, cell: (pin) => <UnpinButton pin={pin} /> },
        ]}
      />
    </Panel>
  );
}

function UnpinButton({ pin: { id, start } }: { pin: PinnedPrompt }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const unpin = async (): Promise<void> => {
    await api.delete(`/operator/prompt-cache/pinned/${encodeURIComponent(id)}`);
    await client.invalidateQueries({ queryKey: KEY });
    toast('Prompt unpinned');
  };
  return (
    <>
      <Button size="small" variant="ghost" aria-label={`Unpin "${start.slice(0, 30)}"`} onClick={() => setAsking(true)}>
        Unpin
      </Button>
      {asking && (
        <ConfirmDialog title="Unpin this prompt?" confirm="Unpin" onConfirm={unpin} onClose={() => setAsking(false)}>
          <p>Its pages are erased from disk unless a stored response needs them.</p>
        </ConfirmDialog>
      )}
    </>
  );
}
