// Compares two tuning runs: objectives, results, and both Pareto fronts in one chart.
import type { ReactNode } from 'react';
import type { TuneRun } from '../../../../shared/wire/tuning.js';
import { Panel } from '../components/page.js';
import { Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { dateTime } from '../format.js';
import { FrontChart } from './front-chart.js';
import { OUTCOMES } from './tuning-run.js';
import { gainText, goodputText, loadText, objectiveText, settingsText } from './tuning-view.js';

export function TuningCompare({ runs: [one, other] }: { runs: readonly [TuneRun, TuneRun] }): ReactNode {
  const names = [one, other].map(({ model, started_at: at }) => `${model}, ${dateTime(at)}`) as [string, string];
  const rows: { name: string; of: (run: TuneRun) => ReactNode }[] = [
    { name: 'Objectives', of: ({ objectives }) => objectives.map(objectiveText).join(', ') },
    { name: 'Workload', of: ({ workload }) => workload },
    { name: 'Measurements', of: ({ trials, trial_s: seconds }) => `${trials.length}, ${seconds} s each` },
    { name: 'Outcome', of: ({ result, state }) => (result === null ? state : OUTCOMES[result.outcome]) },
    { name: 'Settings before', of: ({ before }) => settingsText(before) },
    { name: 'Goodput before', of: ({ result }) => (result?.current == null ? '–' : goodputText(result.current)) },
    {
      name: 'Recommended settings',
      of: ({ result }) => (result?.best == null ? '–' : settingsText(result.best.settings)),
    },
    {
      name: 'Maximum load',
      of: ({ result, load_kind: kind }) => (result?.best == null ? '–' : loadText(kind, result.best.load)),
    },
    { name: 'Goodput with them', of: ({ result }) => (result?.best == null ? '–' : goodputText(result.best)) },
    { name: 'Gain', of: ({ result }) => gainText(result?.gain ?? null) ?? '–' },
  ];
  const alike =
    one.model === other.model &&
    one.objectives.join() === other.objectives.join() &&
    one.workload === other.workload &&
    one.load_kind === other.load_kind;
  return (
    <Panel title="Two runs compared">
      <div className="tuning-run">
        {!alike && (
          <Notice tone="warn">
            The runs differ in model, objectives, workload or load, so the settings alone do not explain differences in
            the results.
          </Notice>
        )}
        <Table
          caption="Two runs compared"
          rows={rows}
          rowKey={({ name }) => name}
          columns={[
            { key: 'name', header: 'Property', heading: true, cell: ({ name }) => name },
            { key: 'one', header: names[0], cell: ({ of }) => of(one) },
            { key: 'other', header: names[1], cell: ({ of }) => of(other) },
          ]}
        />
        <FrontChart
          runs={[
            { label: names[0], run: one },
            { label: names[1], run: other },
          ]}
        />
      </div>
    </Panel>
  );
}
