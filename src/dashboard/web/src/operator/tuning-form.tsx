// Form that starts a tuning run: objectives, load, and the number and duration of measurements.
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
import { FIRST_DRAFT, startOf } from './tuning-view.js';
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
  const text = (name: 'slo' | 'promptTokens' | 'outputTokens' | 'maxLoad' | 'trials' | 'trialS') => ({
    value: draft[name],
    onChange: (event: { target: { value: string } }) => set({ [name]: event.target.value }),
  });
  const minutes = Number(draft.trials) * Number(draft.trialS) * 1.4 * 1000;
  const start = (): void => {
    void action.run(async () => {
      const run = await api.post<TuneRun>('/operator/tuning', startOf({ ...draft, model }));
      await client.invalidateQueries({ queryKey: ['operator', 'tuning'] });
      onStarted(run);
    });
  };
  return (
    <Panel
      title="Start a run"
      lead="The run puts load on the live server: users will notice it, and it shows up in the metrics. The previous settings are restored however the run ends."
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
          <TextField
            label="Objectives"
            className="mono"
            hint="ttft, itl, tpot or e2e with a percentile; errors=1%"
            error={action.errorOf('slo')}
            {...text('slo')}
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
            <TextField label="Prompt tokens" inputMode="numeric" {...text('promptTokens')} />
          )}
          {draft.workload === 'fixed' && (
            <TextField label="Output tokens" inputMode="numeric" {...text('outputTokens')} />
          )}
          <Select
            label="Load"
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
        <Checkbox
          label="Apply the result"
          hint="Only if a confirmation run shows that it is better. Otherwise the previous settings are kept."
          checked={draft.apply}
          onChange={(event) => set({ apply: event.target.checked })}
        />
        {isRunning && <Notice>A tuning run is in progress. Only one can run at a time.</Notice>}
        <div className="row">
          <Button type="submit" variant="primary" busy={action.busy} disabled={isRunning || model === ''}>
            Start
          </Button>
          <span className="hint">
            {Number.isFinite(minutes) && minutes > 0 ? `At most about ${duration(minutes)}.` : ''}
          </span>
        </div>
      </Form>
    </Panel>
  );
}
