import { useEffect } from 'react';
import type { ReactNode } from 'react';
import { useSearch } from 'wouter';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { LinkButton } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Code, PageHeader } from '../components/page.js';
import { EmptyState, Loaded, Notice, Skeleton } from '../components/states.js';
import { bytes, count, date, short } from '../format.js';
import { useModels } from '../queries.js';
import { useMe } from '../session.js';

const STATES: Record<DashboardModel['state'], { tone: Tone; label: string }> = {
  ready: { tone: 'ok', label: 'Ready' },
  loading: { tone: 'warn', label: 'Loading' },
  failed: { tone: 'danger', label: 'Failed' },
  idle: { tone: 'neutral', label: 'Loads on demand' },
  unloaded: { tone: 'neutral', label: 'Not loaded' },
};

export function ModelState({ state }: { state: DashboardModel['state'] }): ReactNode {
  const { tone, label } = STATES[state];
  return (
    <Badge tone={tone} dot>
      {label}
    </Badge>
  );
}

export function Models(): ReactNode {
  const models = useModels();
  const { user } = useMe();
  const wanted = new URLSearchParams(useSearch()).get('model');
  const loaded = models.data !== undefined;
  useEffect(() => {
    if (loaded && wanted !== null) document.getElementById(`model-${wanted}`)?.scrollIntoView({ block: 'center' });
  }, [loaded, wanted]);
  return (
    <>
      <PageHeader
        title="Models"
        actions={user.operator && <LinkButton href="/operator/models">Manage models</LinkButton>}
      >
        Models that you can use, highest tier first. Limits and usage are counted per model.
      </PageHeader>
      <Loaded query={models} loading={<Skeleton rows={8} height={24} />}>
        {(all) =>
          all.length === 0 ? (
            <EmptyState icon="models" title="No models are served">
              {user.operator
                ? 'Download and serve one under Manage models.'
                : 'The operator of this server chooses which models are served.'}
            </EmptyState>
          ) : (
            <div className="cards wide">
              {all.map((model) => (
                <ModelCard key={model.id} model={model} />
              ))}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function ModelCard({ model }: { model: DashboardModel }): ReactNode {
  const build =
    model.upstream !== null
      ? [`upstream, ${model.upstream === 1 ? 'one server' : `${model.upstream} servers`}`]
      : [
          model.architecture,
          model.parameters === null ? null : `${short(model.parameters)} parameters`,
          model.quantization,
          model.file_bytes === null ? null : bytes(model.file_bytes),
        ].filter((part) => part !== null);
  const generates = model.task === null || model.task === 'generation';
  return (
    <section className="panel model-card" aria-labelledby={`model-${model.id}`}>
      <header className="panel-head">
        <div>
          {model.display_name !== model.id && <h2 id={`model-${model.id}`}>{model.display_name}</h2>}
          <div className="row tight">
            {model.display_name === model.id ? <h2 id={`model-${model.id}`}>{model.id}</h2> : <Code>{model.id}</Code>}
            <CopyButton text={model.id} label={`Copy ${model.id}`} iconOnly />
          </div>
        </div>
        <div className="row">
          {model.lifecycle !== 'active' && (
            <Badge tone={model.lifecycle === 'retired' ? 'danger' : 'warn'}>
              {model.lifecycle === 'retired' ? 'Retired' : 'Deprecated'}
            </Badge>
          )}
          <ModelState state={model.state} />
        </div>
      </header>
      <div className="panel-body">
        {model.lifecycle !== 'active' && (
          <Notice tone="warn">
            {model.lifecycle === 'retired' ? 'Retired' : 'Will be retired'}
            {model.retires_at !== null && <> on {date(model.retires_at)}</>}.
            {model.successor !== null && (
              <>
                {' '}
                Use <Code>{model.successor}</Code> instead.
              </>
            )}
          </Notice>
        )}
        <dl className="fact-list">
          {model.adapter_of !== null && (
            <div>
              <dt>LoRA adapter of</dt>
              <dd>
                <Code>{model.adapter_of}</Code>
              </dd>
            </div>
          )}
          <div>
            <dt>Context</dt>
            <dd>{count(model.context_window)} tokens</dd>
          </div>
          {generates ? (
            <GenerationFacts model={model} />
          ) : (
            <div>
              <dt>Output</dt>
              <dd>
                {model.task === 'ranking'
                  ? 'Relevance of documents'
                  : `Vectors${model.embedding_dimensions === null ? '' : ` of ${model.embedding_dimensions.join(', ')} dimensions`}`}
              </dd>
            </div>
          )}
          {build.length > 0 && (
            <div>
              <dt>{model.upstream === null ? 'Weights' : 'Runs on'}</dt>
              <dd>{build.join(' · ')}</dd>
            </div>
          )}
        </dl>
        {model.lifecycle !== 'retired' && generates && (
          <div>
            <LinkButton href={`/playground?model=${encodeURIComponent(model.id)}`} size="small">
              Try in the playground
            </LinkButton>
          </div>
        )}
      </div>
    </section>
  );
}

/** Lists the properties of a model that generates text. */
function GenerationFacts({ model }: { model: DashboardModel }): ReactNode {
  const images = model.input_modalities.includes('image');
  return (
    <>
      <div>
        <dt>Maximum output</dt>
        <dd>{count(model.max_output_tokens)} tokens</dd>
      </div>
      <div>
        <dt>Input</dt>
        <dd>{images ? 'Text and images' : 'Text'}</dd>
      </div>
      <div>
        <dt>Supports</dt>
        <dd>Tools, structured output</dd>
      </div>
      <div>
        <dt>Reasoning</dt>
        <dd>
          {model.reasoning_efforts.length === 0 ? (
            'No'
          ) : (
            <>
              {model.reasoning_efforts.join(', ')}
              <span className="cell-sub">default {model.default_reasoning_effort}</span>
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>Sampling defaults</dt>
        <dd>
          <ul className="pairs">
            {Object.entries(model.sampling_defaults).map(([name, value]) => (
              <li key={name}>
                <code>{name}</code> {value}
              </li>
            ))}
          </ul>
        </dd>
      </div>
    </>
  );
}
