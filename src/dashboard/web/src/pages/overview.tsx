// Landing page: first steps, and a summary of the last 24 hours.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { LinkButton } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Code, PageHeader, Panel, Stat, Stats } from '../components/page.js';
import { SnippetTabs } from '../components/snippet-tabs.js';
import { Loaded, Notice, Skeleton } from '../components/states.js';
import { percent, short } from '../format.js';
import { useModels } from '../queries.js';
import { useOrganization } from '../session.js';
import { loadUsage, rangeOf, totalOf } from '../usage-data.js';
import { ModelState } from './models.js';

export function Overview(): ReactNode {
  const { id, name, path, status, may } = useOrganization();
  const models = useModels();
  const keys = useQuery({
    queryKey: ['organization', id, 'api-keys', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<ApiKeyObject>>(`${path}/api-keys`, { limit: 100 }, signal),
  });
  const usage = useQuery({
    queryKey: ['organization', id, 'usage', 'day'],
    queryFn: ({ signal }) => loadUsage(path, { ...rangeOf('24h'), bucket: 'hour', group_by: 'model' }, signal),
  });
  const active = keys.data?.data.filter((key) => key.status === 'active') ?? [];
  const base = `${location.origin}/v1`;
  return (
    <>
      <PageHeader
        title="Overview"
        actions={
          may('developer') &&
          status === 'active' && (
            <>
              <LinkButton href="/playground">Try the playground</LinkButton>
              <LinkButton href="/keys?create" variant="primary">
                Create key
              </LinkButton>
            </>
          )
        }
      >
        {name}
      </PageHeader>
      {keys.data !== undefined && active.length === 0 && status === 'active' && (
        <Notice>
          {may('developer') ? (
            <>
              No API keys yet. <Link href="/keys?create">Create the first one</Link>, then send the request below.
            </>
          ) : (
            'No API keys yet. Ask a developer in your organization to create one.'
          )}
        </Notice>
      )}
      <Panel
        title="Last 24 hours"
        actions={
          <LinkButton href="/usage" size="small">
            Usage
          </LinkButton>
        }
      >
        <Loaded query={usage} loading={<Skeleton rows={2} height={24} />}>
          {(rows) => {
            const total = totalOf(rows);
            return (
              <Stats>
                <Stat
                  label="Requests"
                  value={short(total.requests)}
                  note={total.errors > 0 ? `${short(total.errors)} failed` : undefined}
                />
                <Stat
                  label="Input tokens"
                  value={short(total.input_tokens)}
                  note={
                    total.input_tokens === 0 ? undefined : `${percent(total.cached_tokens / total.input_tokens)} cached`
                  }
                />
                <Stat label="Output tokens" value={short(total.output_tokens)} />
                <Stat
                  label="Active keys"
                  value={keys.data === undefined ? '–' : `${active.length}${keys.data.has_more ? '+' : ''}`}
                />
              </Stats>
            );
          }}
        </Loaded>
      </Panel>
      <Panel
        title="First request"
        lead="Use this address as the base URL in clients of the Chat Completions, Messages and Responses APIs."
      >
        <div className="secret">
          <code>{base}</code>
          <CopyButton text={base} label="Copy address" iconOnly />
        </div>
        <SnippetTabs apiKey="$MONOLITH_KEY" model={firstModel(models.data)} />
      </Panel>
      <Panel
        title="Models"
        flush
        actions={
          <LinkButton href="/models" size="small">
            All details
          </LinkButton>
        }
      >
        <Loaded
          query={models}
          loading={
            <div className="panel-pad">
              <Skeleton />
            </div>
          }
        >
          {(all) => (
            <ul className="rows">
              {all
                .filter(({ lifecycle }) => lifecycle !== 'retired')
                .map((model) => (
                  <li key={model.id}>
                    <span className="grow">
                      <span className="cell-main">{model.display_name}</span>{' '}
                      {model.display_name !== model.id && <Code>{model.id}</Code>}
                    </span>
                    <span className="muted">{short(model.context_window)} context</span>
                    {model.lifecycle === 'deprecated' && <Badge tone="warn">Deprecated</Badge>}
                    <ModelState state={model.state} />
                  </li>
                ))}
            </ul>
          )}
        </Loaded>
      </Panel>
    </>
  );
}

/** The smallest served model that generates text, because it responds fastest. */
export const firstModel = (models: readonly DashboardModel[] | undefined): string =>
  models?.filter(({ lifecycle, task }) => lifecycle === 'active' && (task === null || task === 'generation')).at(-1)
    ?.id ?? 'tycho-1.0';
