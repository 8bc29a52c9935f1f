// Form that starts a tuning run: workload, objectives, load, and the number and duration of measurements.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { EngineTunables } from '../../../../shared/wire/tunables.js';
import type { TuneRun } from '../../../../shared/wire/tuning.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Checkbox, Select, TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Panel } from '../components/page.js';
import { Notice } from '../components/states.js';
import { duration } from '../format.js';
import { estimateMs, FIRST_DRAFT, objectiveProblems, startOf } from './tuning-view.js';
import type { StartDraft } from './tuning-view.js';

const FIELDS = ['model', 'slo', 'workload', 'load', 'max_load', 'trials', 'trial_s'];

export function TuningForm({
  isRunning,
  onStarted,
}: {
  isRunning: boolean;
  onStarted: (run: TuneRun) => void;
}): ReactNode {
  const engines = useQuery({
    queryKey: ['operator', 'tunables'],
    queryFn: ({ signal }) => api.get<ListPage<EngineTunables>>('/operator/tunables', {}, signal),
  });
  const [draft, setDraft] = useState<StartDraft>(FIRST_DRAFT);
  const client = useQueryClient();
  const action = useAction();
  const models = engines.data?.data ?? [];
  const model = draft.model === '' ? (models[0]?.model ?? '') : draft.model;
  const set = (change: Partial<StartDraft>): void => setDraft((before) => ({ ...before, ...change }));
  const [problems, setProblems] = useState<ReturnType<typeof objectiveProblems>>({});
  const text = (
    name: 'ttft' | 'itl' | 'errors' | 'promptTokens' | 'outputTokens' | 'maxLoad' | 'trials' | 'trialS',
  ) => ({
    value: draft[name],
    onChange: (event: { target: { value: string } }) => set({ [name]: event.target.value }),
  });
  const estimate = estimateMs(draft);
  const start = (): void => {
    const wrong = objectiveProblems(draft);
    setProblems(wrong);
    if (Object.keys(wrong).length > 0) return;
    void action.run(async () => {
      const run = await api.post<TuneRun>('/operator/tuning', startOf({ ...draft, model }));
      await client.invalidateQueries({ queryKey: ['operator', 'tuning'] });
      onStarted(run);
    });
  };
  return (
    <Panel
      title="Start a run"
      lead="The run puts load on the live server: users will notice the load, and it shows up in the metrics. The previous settings are restored regardless of how the run ends."
    >
      <Form label="Start a run" onSubmit={start}>
        <FormError action={action} fields={FIELDS} />
        <div className="tuning-fields">
          <Select
            label="Model"
            value={model}
            error={action.errorOf('model')}
            onChange={(event) => set({ model: event.target.value })}
            options={models.map((one) => ({ value: one.model, label: one.names.join(', ') }))}
          />
          <Select
            label="Workload"
            value={draft.workload}
            error={action.errorOf('workload')}
            onChange={(event) => set({ workload: event.target.value as StartDraft['workload'] })}
            options={[
              { value: 'recent', label: 'Lengths of recent requests' },
              { value: 'fixed', label: 'Fixed lengths' },
            ]}
          />
          {draft.workload === 'fixed' && (
            <>
              <TextField
                label="Prompt tokens"
                inputMode="numeric"
                error={action.errorOf('workload.prompt_tokens')}
                {...text('promptTokens')}
              />
              <TextField
                label="Output tokens"
                inputMode="numeric"
                error={action.errorOf('workload.output_tokens')}
                {...text('outputTokens')}
              />
            </>
          )}
        </div>
        <fieldset className="fieldset">
          <legend>Objectives</legend>
          <p className="hint">The run searches for the settings that meet every objective at the highest load.</p>
          <div className="tuning-fields">
            <TextField
              label="Time to first token (ms)"
              inputMode="decimal"
              error={problems.ttft ?? action.errorOf('slo')}
              {...text('ttft')}
            />
            <TextField label="Inter-token latency (ms)" inputMode="decimal" error={problems.itl} {...text('itl')} />
            <TextField
              label="Failed requests (%)"
              optional
              inputMode="decimal"
              error={problems.errors}
              {...text('errors')}
            />
            <Select
              label="Latencies hold for"
              value={draft.percentile}
              onChange={(event) => set({ percentile: event.target.value })}
              options={[
                { value: 'p50', label: '50% of requests (p50)' },
                { value: 'p90', label: '90% of requests (p90)' },
                { value: 'p95', label: '95% of requests (p95)' },
                { value: 'p99', label: '99% of requests (p99)' },
              ]}
            />
          </div>
        </fieldset>
        <fieldset className="fieldset">
          <legend>Load</legend>
          <div className="tuning-fields">
            <Select
              label="Unit of the load"
              value={draft.load}
              onChange={(event) => set({ load: event.target.value as StartDraft['load'] })}
              options={[
                { value: 'concurrency', label: 'Concurrent requests' },
                { value: 'rate', label: 'Requests per second' },
              ]}
            />
            <TextField
              label="Maximum load"
              inputMode="decimal"
              optional={draft.load === 'concurrency'}
              error={action.errorOf('max_load')}
              {...text('maxLoad')}
            />
            <TextField label="Measurements" inputMode="numeric" error={action.errorOf('trials')} {...text('trials')} />
            <TextField
              label="Seconds per measurement"
              inputMode="decimal"
              error={action.errorOf('trial_s')}
              {...text('trialS')}
            />
          </div>
        </fieldset>
        <Checkbox
          label="Apply the result"
          hint="The result is applied only if a confirmation run shows that it is better. Otherwise the previous settings are kept."
          checked={draft.apply}
          onChange={(event) => set({ apply: event.target.checked })}
        />
        {isRunning && <Notice>A tuning run is in progress. Only one can run at a time.</Notice>}
        <div className="row">
          <Button type="submit" variant="primary" busy={action.busy} disabled={isRunning || model === ''}>
            Start run
          </Button>
          <span className="hint">{estimate === null ? '' : `Takes at most about ${duration(estimate)}.`}</span>
        </div>
      </Form>
    </Panel>
  );
}
