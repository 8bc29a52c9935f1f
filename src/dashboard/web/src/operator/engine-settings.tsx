// Engine settings that can be changed at run time: one form per engine. A change takes effect with the engine's next
// step.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { EngineTunables, EngineTunablesPatch, TunableName } from '../../../../shared/wire/tunables.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { FormError, useAction } from '../components/form.js';
import { Panel } from '../components/page.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { plural } from '../format.js';
import { EngineSetting, numberOf, problemOf, SETTING_NAMES } from './engine-setting.js';

const KEY = ['operator', 'tunables'];

export function EngineSettings(): ReactNode {
  const query = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => api.get<ListPage<EngineTunables>>('/operator/tunables', {}, signal),
    refetchInterval: 10_000,
  });
  return (
    <div className="stack">
      <p className="page-lead">
        Changes take effect with the next engine step. Running requests continue. Changes survive a restart unless the
        setting is given at startup.
      </p>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState icon="tuning" title="No engine is running">
              Load a model under Manage models to see its settings.
            </EmptyState>
          ) : (
            data.map((engine) => <EngineForm key={engine.model} engine={engine} />)
          )
        }
      </Loaded>
    </div>
  );
}

type Drafts = Partial<Record<TunableName, string>>;

function EngineForm({ engine }: { engine: EngineTunables }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const [drafts, setDrafts] = useState<Drafts>({});
  const name = engine.names.join(', ');
  const changed = engine.tunables.filter(
    (tunable) => drafts[tunable.name] !== undefined && numberOf(drafts[tunable.name] ?? '') !== tunable.value,
  );
  const isValid = changed.every((tunable) => problemOf(drafts[tunable.name] ?? '', tunable) === null);
  const set = (tunable: TunableName, text: string | undefined): void => {
    action.clear();
    setDrafts((old) => ({ ...old, [tunable]: text }));
  };
  const apply = (): void => {
    if (changed.length === 0 || !isValid) return;
    // A value equal to the default is sent as null, so that the setting follows the default again.
    const patch: EngineTunablesPatch = Object.fromEntries(
      changed.map((tunable) => {
        const value = numberOf(drafts[tunable.name] ?? '');
        return [tunable.name, value === tunable.default ? null : value];
      }),
    );
    void action.run(async () => {
      const next = await api.patch<EngineTunables>(`/operator/tunables/${encodeURIComponent(engine.model)}`, patch);
      client.setQueryData<ListPage<EngineTunables>>(
        KEY,
        (old) => old && { ...old, data: old.data.map((one) => (one.model === next.model ? next : one)) },
      );
      setDrafts({});
      toast(`${plural(changed.length, 'setting')} of ${name} changed`);
    });
  };
  const isDefault = engine.tunables.every(({ value, default: initial }) => value === initial);
  return (
    <Panel flush title={name}>
      <form
        aria-label={`Settings of ${name}`}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          apply();
        }}
      >
        {engine.held_until !== null && (
          <div className="panel-pad">
            <Notice tone="warn">A tuning run is trying settings on this engine. Applying a change ends the run.</Notice>
          </div>
        )}
        {engine.tunables.map((tunable) => (
          <EngineSetting
            key={tunable.name}
            tunable={tunable}
            text={drafts[tunable.name]}
            error={action.errorOf(tunable.name)}
            onChange={(text) => set(tunable.name, text)}
          />
        ))}
        <div className={`tunables-foot ${changed.length > 0 ? 'dirty' : ''}`}>
          <span className="tunables-state" role="status">
            {changed.length > 0 ? `${plural(changed.length, 'unsaved change')}` : ''}
          </span>
          {changed.length === 0 && !isDefault && (
            <Button
              variant="ghost"
              onClick={() =>
                setDrafts(Object.fromEntries(engine.tunables.map((tunable) => [tunable.name, String(tunable.default)])))
              }
            >
              Restore defaults
            </Button>
          )}
          {Object.values(drafts).some((text) => text !== undefined) && (
            <Button
              variant="ghost"
              onClick={() => {
                setDrafts({});
                action.clear();
              }}
            >
              Discard
            </Button>
          )}
          <Button type="submit" variant="primary" disabled={changed.length === 0 || !isValid} busy={action.busy}>
            Apply
          </Button>
        </div>
        {action.failure !== null && (
          <div className="tunables-error">
            <FormError action={action} fields={SETTING_NAMES} />
          </div>
        )}
      </form>
    </Panel>
  );
}
