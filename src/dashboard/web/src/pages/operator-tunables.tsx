// Engine settings that can be changed at run time. A change takes effect with the engine's next step.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { EngineTunables, Tunable, TunableName } from '../../../../shared/wire/tunables.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { count } from '../format.js';
import '../styles/operator.css';

const KEY = ['operator', 'tunables'];

const LABELS: Record<TunableName, string> = {
  max_batch_tokens: 'Tokens per step',
  max_sequences: 'Concurrent sequences',
  step_ms: 'Step time target (ms)',
  queue_max: 'Waiting requests',
  queue_max_tokens: 'Waiting prompt tokens',
};

export function OperatorTunables(): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<ListPage<EngineTunables>>('/operator/tunables', {}, signal),
    refetchInterval: 10_000,
  });
  return (
    <>
      <PageHeader title="Tunables">
        Run-time settings of each engine. Changes take effect with the next step, without a restart and without
        interrupting running requests. They survive a restart unless the setting is given at startup.
      </PageHeader>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState icon="tunables" title="No engine is running">
              Load a model to see its settings.
            </EmptyState>
          ) : (
            data.map((engine) => (
              <Panel key={engine.model} flush title={engine.names.join(', ')}>
                {engine.tunables.map((tunable) => (
                  <Setting key={tunable.name} model={engine.model} tunable={tunable} />
                ))}
              </Panel>
            ))
          )
        }
      </Loaded>
    </>
  );
}

type Outcome = { state: 'idle' } | { state: 'busy' } | { state: 'failed'; message: string };

function Setting({ model, tunable }: { model: string; tunable: Tunable }): ReactNode {
  const { name, value, min, max, help } = tunable;
  const client = useQueryClient();
  const toast = useToast();
  const [draft, setDraft] = useState<string | null>(null);
  const [outcome, setOutcome] = useState<Outcome>({ state: 'idle' });
  const id = useId();
  const text = draft ?? String(value);
  const wanted = text.trim() === '' ? NaN : Number(text);
  const invalid =
    !Number.isFinite(wanted) ||
    wanted < min ||
    wanted > max ||
    (Number.isInteger(value) && Number.isInteger(min) && !Number.isInteger(wanted));
  const changed = draft !== null && wanted !== value;

  const apply = (to: number | null): void => {
    setOutcome({ state: 'busy' });
    api.patch<EngineTunables>(`/operator/tunables/${encodeURIComponent(model)}`, { [name]: to }).then(
      (engine) => {
        client.setQueryData<ListPage<EngineTunables>>(
          KEY,
          (old) => old && { ...old, data: old.data.map((one) => (one.model === engine.model ? engine : one)) },
        );
        setDraft(null);
        setOutcome({ state: 'idle' });
        toast(
          `${LABELS[name] ?? name} of ${engine.names.join(', ')} set to ${count(engine.tunables.find((one) => one.name === name)?.value ?? 0)}`,
        );
      },
      (error: unknown) => setOutcome({ state: 'failed', message: messageOf(error) }),
    );
  };
  return (
    <form
      className="tunable"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (changed && !invalid && outcome.state !== 'busy') apply(wanted);
      }}
    >
      <div>
        <label className="tunable-name" htmlFor={id}>
          {LABELS[name] ?? name}
        </label>
        <p className="hint" id={`${id}-help`}>
          {help}
        </p>
      </div>
      <div className="tunable-set">
        <input
          type="range"
          aria-label={`${LABELS[name] ?? name}, slider`}
          min={0}
          max={STEPS}
          step={1}
          value={toSlider(invalid ? value : wanted, min, max)}
          aria-valuetext={count(invalid ? value : wanted)}
          onChange={(event) => setDraft(String(fromSlider(Number(event.target.value), min, max)))}
        />
        <input
          id={id}
          className="input mono"
          inputMode="numeric"
          autoComplete="off"
          value={text}
          aria-describedby={`${id}-help ${id}-foot`}
          aria-invalid={(changed && invalid) || undefined}
          onChange={(event) => setDraft(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') setDraft(null);
          }}
        />
      </div>
      <div className="tunable-foot">
        <span id={`${id}-foot`} role="status">
          {outcome.state === 'failed' ? (
            <span className="field-error">{outcome.message}</span>
          ) : draft !== null && invalid ? (
            <span className="field-error">
              Must be a number from {count(min)} to {count(max)}.
            </span>
          ) : (
            <>
              {count(min)} to {count(max)}, {tunable.given === null ? 'default' : 'started with'}{' '}
              {count(tunable.default)}
              {tunable.given !== null && (
                <>
                  {' '}
                  (<span className="mono">{tunable.given}</span>: a change is lost at the next start with this setting)
                </>
              )}
              {value !== tunable.default && (
                <>
                  {' '}
                  <Badge tone="accent">changed</Badge>
                </>
              )}
            </>
          )}
        </span>
        <span className="tunable-actions">
          {value !== tunable.default && !changed && (
            <Button size="small" variant="ghost" busy={outcome.state === 'busy'} onClick={() => apply(null)}>
              {tunable.given === null ? 'Reset to default' : 'Undo'}
            </Button>
          )}
          {changed && (
            <Button
              size="small"
              variant="ghost"
              onClick={() => {
                setDraft(null);
                setOutcome({ state: 'idle' });
              }}
            >
              Discard
            </Button>
          )}
          <Button
            size="small"
            type="submit"
            variant={changed && !invalid ? 'primary' : 'secondary'}
            disabled={!changed || invalid}
            busy={outcome.state === 'busy' && changed}
          >
            Apply
          </Button>
        </span>
      </div>
    </form>
  );
}

// The slider is logarithmic, because ranges span several powers of ten and small values must stay reachable.
const STEPS = 200;
const shift = (min: number): number => 1 - min;
function toSlider(value: number, min: number, max: number): number {
  return Math.round((STEPS * Math.log(value + shift(min))) / Math.log(max + shift(min)));
}
function fromSlider(at: number, min: number, max: number): number {
  const exact = Math.exp((at / STEPS) * Math.log(max + shift(min))) - shift(min);
  // Dragging rounds to two significant digits. The text field accepts any value.
  const size = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(exact, 1))) - 1);
  return Math.min(max, Math.max(min, Math.round(exact / size) * size));
}
