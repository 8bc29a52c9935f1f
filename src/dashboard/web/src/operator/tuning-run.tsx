// One tuning run, updated while it is in progress: its result, a chart, and every measurement.
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { TuneOutcome, TunePick, TuneRun, TuneTrial } from '../../../../shared/wire/tuning.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { useAction } from '../components/form.js';
import { Code, Meter, Panel } from '../components/page.js';
import { Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { dateTime, duration } from '../format.js';
import { FrontChart } from './front-chart.js';
import {
  figure,
  gainText,
  goodputText,
  loadText,
  objectiveName,
  objectiveText,
  PHASE_LABELS,
  progressOf,
  secondsLeft,
  settingsText,
} from './tuning-view.js';

const STATES: Record<TuneRun['state'], { tone: Tone; label: string }> = {
  running: { tone: 'warn', label: 'Running' },
  done: { tone: 'ok', label: 'Done' },
  stopped: { tone: 'neutral', label: 'Stopped' },
  failed: { tone: 'danger', label: 'Failed' },
};
export const OUTCOMES: Record<TuneOutcome, string> = {
  advised: 'Better settings found',
  kept: 'No better settings found',
  applied: 'Applied',
  rolled_back: 'Rolled back',
  nothing_meets: 'Objectives not reachable',
};

export function StateBadge({ state }: { state: TuneRun['state'] }): ReactNode {
  const { tone, label } = STATES[state];
  return (
    <Badge tone={tone} dot>
      {label}
    </Badge>
  );
}

export function TuningRun({ run }: { run: TuneRun }): ReactNode {
  const client = useQueryClient();
  const action = useAction();
  const left = secondsLeft(run);
  const done = progressOf({ ...run, trials_done: run.trials.length });
  const text = `${run.trials.length} of ${run.trials_planned} measurements${left === null ? '' : `, ${duration(left * 1000)} left`}`;
  const stop = (): void => {
    void action.run(async () => {
      await api.delete(`/operator/tuning/${run.id}`);
      await client.invalidateQueries({ queryKey: ['operator', 'tuning'] });
    });
  };
  const apply = (best: TunePick): void => {
    void action.run(async () => {
      await api.patch(`/operator/tunables/${encodeURIComponent(run.model)}`, best.settings);
      await client.invalidateQueries({ queryKey: ['operator', 'tunables'] });
    });
  };
  const { result } = run;
  return (
    <Panel
      title={`${run.model}, ${dateTime(run.started_at)}`}
      lead={`${run.objectives.map(objectiveText).join(', ')}; ${run.workload}`}
      actions={
        run.state === 'running' ? (
          <Button busy={action.busy} onClick={stop}>
            Stop
          </Button>
        ) : undefined
      }
    >
      <div className="tuning-run">
        <div className="row" role="status">
          <StateBadge state={run.state} />
          {run.state === 'running' && <span>{PHASE_LABELS[run.phase]}</span>}
          <span className="muted">{text}</span>
        </div>
        {run.state === 'running' && <Meter label="Completed measurements" value={done} max={1} text={text} />}
        {run.error !== null && <Notice tone={run.state === 'failed' ? 'danger' : 'info'}>{run.error}</Notice>}
        {result !== null && (
          <Notice tone={result.outcome === 'advised' || result.outcome === 'applied' ? 'ok' : 'info'}>
            <strong>{OUTCOMES[result.outcome]}.</strong> {result.says}
          </Notice>
        )}
        {result !== null && <Picks run={run} />}
        {result?.outcome === 'advised' && result.best !== null && (
          <div>
            <Button variant="primary" busy={action.busy} onClick={() => apply(result.best as TunePick)}>
              Apply these now
            </Button>
          </div>
        )}
        <FrontChart runs={[{ label: run.model, run }]} />
        <Trials run={run} />
      </div>
    </Panel>
  );
}

function Picks({ run: { result, before, load_kind: kind } }: { run: TuneRun }): ReactNode {
  if (result === null) return null;
  const rows = [
    { name: 'Before', settings: before, pick: result.current },
    ...(result.best === null
      ? []
      : [
          {
            name: result.outcome === 'kept' ? 'Best other' : 'Recommended',
            settings: result.best.settings,
            pick: result.best,
          },
        ]),
  ];
  const gain = gainText(result.gain);
  return (
    <Table
      caption="Settings before and recommended"
      rows={rows}
      rowKey={({ name }) => name}
      columns={[
        {
          key: 'name',
          header: 'Settings',
          heading: true,
          cell: ({ name, settings }) => (
            <div>
              <span className="cell-main">{name}</span>
              <span className="cell-sub">{settingsText(settings)}</span>
            </div>
          ),
        },
        {
          key: 'load',
          header: 'Sustains',
          cell: ({ pick }) => (pick === null ? 'none of the loads tried' : loadText(kind, pick.load)),
        },
        {
          key: 'goodput',
          header: 'Goodput (95% interval)',
          numeric: true,
          cell: ({ name, pick }) =>
            pick === null ? (
              '–'
            ) : (
              <div>
                {goodputText(pick)}
                {name !== 'Before' && gain !== null && <span className="cell-sub">{gain} the goodput</span>}
              </div>
            ),
        },
        {
          key: 'verdicts',
          header: 'Objectives',
          // The verdicts are wrapped in one element, because phones show a cell's children side by side.
          cell: ({ pick }) =>
            pick === null ? (
              '–'
            ) : (
              <div>
                {pick.verdicts.map(({ name, value, limit }) => (
                  <div key={name}>
                    {objectiveName(name)}: {limitText(name, value)} of {limitText(name, limit)}
                  </div>
                ))}
              </div>
            ),
        },
      ]}
    />
  );
}

function Trials({ run: { trials, load_kind: kind } }: { run: TuneRun }): ReactNode {
  if (trials.length === 0) return null;
  return (
    <details className="disclosure">
      <summary>{trials.length} measurements</summary>
      <Table
        caption="Measurements"
        rows={[...trials].reverse()}
        rowKey={({ number }) => String(number)}
        columns={[
          {
            key: 'number',
            header: 'No.',
            heading: true,
            cell: ({ number, phase }) => (
              <span className="nowrap">
                {number} <span className="muted">{PHASE_LABELS[phase]}</span>
              </span>
            ),
          },
          { key: 'settings', header: 'Settings', cell: ({ settings }) => settingsText(settings) },
          { key: 'load', header: 'Load', cell: ({ load }) => <span className="nowrap">{loadText(kind, load)}</span> },
          { key: 'goodput', header: 'Goodput /s', numeric: true, cell: ({ goodput }) => figure(goodput) },
          {
            key: 'tokens',
            header: 'Tokens /s',
            numeric: true,
            cell: ({ output_tokens_per_s: tokens }) => figure(tokens),
          },
          { key: 'objectives', header: 'Objectives', cell: (trial) => <Verdict trial={trial} /> },
        ]}
      />
    </details>
  );
}

function Verdict({ trial: { met, stopped, verdicts, errors } }: { trial: TuneTrial }): ReactNode {
  const failures = Object.entries(errors)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ');
  return (
    <>
      <Badge tone={met ? 'ok' : 'neutral'}>{met ? 'met' : stopped ? 'missed, ended early' : 'missed'}</Badge>{' '}
      <span className="cell-sub">
        {verdicts.map(({ name, value }) => `${objectiveName(name)} ${limitText(name, value)}`).join(', ')}
        {failures === '' ? (
          ''
        ) : (
          <>
            ; <Code>{failures}</Code>
          </>
        )}
      </span>
    </>
  );
}

const limitText = (name: string, value: number | null): string =>
  value === null ? 'not measured' : name === 'errors' ? `${figure(value * 100)}%` : duration(value);
