// The engine's settings, and tuning runs that find better ones: start, watch, stop and compare them. The page's URL
// determines the tab and which runs are shown.
import { useQueries, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useLocation, useSearch } from 'wouter';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { TuneRun, TuneRunSummary } from '../../../../shared/wire/tuning.js';
import { api } from '../api.js';
import { PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState, Loaded } from '../components/states.js';
import { Table } from '../components/table.js';
import { Tabs } from '../components/tabs.js';
import { EngineSettings } from '../operator/engine-settings.js';
import { TuningCompare } from '../operator/tuning-compare.js';
import { TuningForm } from '../operator/tuning-form.js';
import { OUTCOMES, StateBadge, TuningRun } from '../operator/tuning-run.js';
import { gainText, objectiveText, settingsText } from '../operator/tuning-view.js';
import '../styles/operator.css';
import '../styles/tuning.css';

const KEY = ['operator', 'tuning'];
const LIVE_MS = 1_000;

type Tab = 'settings' | 'runs';

export function OperatorTuning(): ReactNode {
  const [, navigate] = useLocation();
  const search = new URLSearchParams(useSearch());
  return (
    <>
      <PageHeader title="Tuning">
        How each engine shares its steps among requests. Set it by hand, or let a tuning run measure which settings meet
        your objectives.
      </PageHeader>
      <Tabs<Tab>
        label="Tuning"
        value={search.has('run') || search.get('tab') === 'runs' ? 'runs' : 'settings'}
        onChange={(tab) =>
          navigate(tab === 'runs' ? '/operator/tuning?tab=runs' : '/operator/tuning', { replace: true })
        }
        tabs={[
          { value: 'settings', label: 'Engine settings', content: <EngineSettings /> },
          { value: 'runs', label: 'Tuning runs', content: <Runs /> },
        ]}
      />
    </>
  );
}

function Runs(): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<ListPage<TuneRunSummary>>('/operator/tuning', {}, signal),
    refetchOnMount: 'always',
    refetchInterval: ({ state }) =>
      state.data?.data.some((run) => run.state === 'running') === true ? LIVE_MS : 15_000,
  });
  const [, navigate] = useLocation();
  const chosen = new URLSearchParams(useSearch()).getAll('run').slice(0, 2);
  const show = (ids: readonly string[]): void =>
    navigate(
      `/operator/tuning?${ids.length === 0 ? 'tab=runs' : `${ids.map((id) => `run=${encodeURIComponent(id)}`).join('&')}`}`,
      { replace: true },
    );
  const toggle = (id: string): void =>
    show(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen.slice(-1), id]);
  return (
    <div className="stack tuning-runs">
      <p className="page-lead">
        A run measures the live engine under load. <code>monolith bench tune</code> does the same from another machine.
      </p>
      <Chosen ids={chosen} />
      <Loaded query={query}>
        {({ data }) => (
          <>
            <TuningForm isRunning={data.some(({ state }) => state === 'running')} onStarted={({ id }) => show([id])} />
            <Panel flush title="Runs" lead="The last 50 runs. Select two to compare them.">
              {data.length === 0 ? (
                <EmptyState icon="tuning" title="No runs yet">
                  Start one above, or with <code>monolith bench tune</code>.
                </EmptyState>
              ) : (
                <Table
                  caption="Tuning runs"
                  rows={data}
                  rowKey={({ id }) => id}
                  columns={[
                    {
                      key: 'show',
                      header: 'Compare',
                      cell: ({ id, model, started_at: at }) => (
                        <input
                          type="checkbox"
                          aria-label={`Show the run of ${model}, ${at}`}
                          checked={chosen.includes(id)}
                          onChange={() => toggle(id)}
                        />
                      ),
                    },
                    {
                      key: 'model',
                      header: 'Run',
                      heading: true,
                      cell: ({ id, model, started_at: at, by }) => (
                        <div>
                          <button type="button" className="link-button" onClick={() => show([id])}>
                            {model}
                          </button>
                          <span className="cell-sub nowrap">
                            <Time at={at} />
                          </span>
                          <span className="cell-sub clip tuning-by" title={by}>
                            {by}
                          </span>
                        </div>
                      ),
                    },
                    {
                      key: 'objectives',
                      header: 'Objectives',
                      cell: ({ objectives, workload }) => (
                        <div>
                          {objectives.map((one) => (
                            <div key={one} className="nowrap">
                              {objectiveText(one)}
                            </div>
                          ))}
                          <span className="cell-sub">{workload}</span>
                        </div>
                      ),
                    },
                    {
                      key: 'state',
                      header: 'State',
                      cell: ({ state, result, trials_done: done, trials_planned: planned }) => (
                        <div>
                          <StateBadge state={state} />{' '}
                          <span className="cell-sub">
                            {result !== null ? OUTCOMES[result.outcome] : `${done} of ${planned}`}
                          </span>
                        </div>
                      ),
                    },
                    {
                      key: 'found',
                      header: 'Result',
                      cell: ({ result }) =>
                        result?.best == null ? (
                          '–'
                        ) : (
                          <div>
                            {settingsText(result.best.settings)}
                            {result.gain !== null && (
                              <span className="cell-sub">{gainText(result.gain)} the goodput</span>
                            )}
                          </div>
                        ),
                    },
                  ]}
                />
              )}
            </Panel>
          </>
        )}
      </Loaded>
    </div>
  );
}

function Chosen({ ids }: { ids: readonly string[] }): ReactNode {
  const queries = useQueries({
    queries: ids.map((id) => ({
      queryKey: [...KEY, id],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        api.get<TuneRun>(`/operator/tuning/${encodeURIComponent(id)}`, {}, signal),
      refetchInterval: ({ state }: { state: { data?: TuneRun | undefined } }) =>
        state.data?.state === 'running' ? LIVE_MS : (false as const),
    })),
  });
  const [first, second] = queries;
  if (first === undefined) return null;
  if (second === undefined) return <Loaded query={first}>{(run) => <TuningRun run={run} />}</Loaded>;
  return (
    <Loaded query={first}>
      {(one) => <Loaded query={second}>{(other) => <TuningCompare runs={[one, other]} />}</Loaded>}
    </Loaded>
  );
}
