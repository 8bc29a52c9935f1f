// Shows a preset or conversation that a member has shared by link, with a button that opens it in the playground.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useLocation } from 'wouter';
import type { SavedContent, SavedItem } from '../../../../shared/wire/playground.js';
import { api, ApiFailure } from '../api.js';
import { Button, LinkButton } from '../components/button.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState, Loaded, Skeleton } from '../components/states.js';
import { date } from '../format.js';
import { openContent } from '../playground/open-content.js';
import { settingsOf, turnsOf } from '../playground/saved.js';
import { NO_SETTINGS } from '../playground/settings.js';
import type { Settings } from '../playground/settings.js';
import { Transcript } from '../playground/transcript.js';
import { atLeast } from '../roles.js';
import { useMe, useSession } from '../session.js';
import '../styles/playground.css';

export function Shared({ organizationId, id }: { organizationId: string; id: string }): ReactNode {
  const { organizations } = useMe();
  const organization = organizations.find((one) => one.id === organizationId);
  const query = useQuery({
    queryKey: ['organization', organizationId, 'saved', id],
    retry: false,
    queryFn: ({ signal }) =>
      api.get<SavedItem & { content: SavedContent }>(
        `/organizations/${encodeURIComponent(organizationId)}/playground/saved/${encodeURIComponent(id)}`,
        {},
        signal,
      ),
  });
  if (query.error instanceof ApiFailure && query.error.status === 404) {
    return (
      <>
        <PageHeader title="Shared" />
        <EmptyState
          icon="playground"
          title="This link is not available"
          action={<LinkButton href="/">Open the overview</LinkButton>}
        >
          Only members of the organization can open it, and only while it is shared.
        </EmptyState>
      </>
    );
  }
  return (
    <Loaded
      query={query}
      loading={
        <>
          <PageHeader title="Shared" />
          <Skeleton />
        </>
      }
    >
      {(item) => (
        <Item
          item={item}
          organizationId={organizationId}
          canGoOn={organization !== undefined && atLeast(organization.role, 'developer')}
        />
      )}
    </Loaded>
  );
}

function Item({
  item,
  organizationId,
  canGoOn,
}: {
  item: SavedItem & { content: SavedContent };
  organizationId: string;
  canGoOn: boolean;
}): ReactNode {
  const { selectOrganization } = useSession();
  const [, navigate] = useLocation();
  const { content, kind, name, by, own, created_at: created, expires_at: expires } = item;
  const settings = settingsOf(content);
  const goOn = (): void => {
    selectOrganization(organizationId);
    openContent(organizationId, item);
    navigate('/playground');
  };
  return (
    <>
      <PageHeader
        title={name}
        actions={
          canGoOn ? (
            <Button variant="primary" onClick={goOn}>
              {kind === 'preset' ? 'Use it in the playground' : 'Continue in the playground'}
            </Button>
          ) : undefined
        }
      >
        {kind === 'preset' ? 'A preset' : 'A conversation'} by {own ? 'yours' : by}, {date(created)}
        {expires !== null && `, stored until ${date(expires)}`}. Only members of the organization can open this link.
      </PageHeader>
      <Panel title="Settings">
        <SettingsList settings={settings} models={content.columns.map(({ model }) => model)} />
      </Panel>
      {kind === 'conversation' && (
        <div className="compared shared" data-columns={content.columns.length}>
          {content.columns.map(({ model, turns }, at) => (
            <section key={at} className="compared-column" aria-label={`Column for ${model}`}>
              <Transcript
                label={`Messages of ${model}`}
                turns={turnsOf(turns)}
                running={false}
                empty={null}
                onRegenerate={undefined}
                onEdit={undefined}
                onResults={undefined}
              />
            </section>
          ))}
        </div>
      )}
    </>
  );
}

const LABELS: Partial<Record<keyof Settings, string>> = {
  system: 'System prompt',
  temperature: 'Temperature',
  topP: 'Top P',
  topK: 'Top K',
  stop: 'Stop sequences',
  maxTokens: 'Max output tokens',
  seed: 'Seed',
  effort: 'Reasoning effort',
  tools: 'Tools',
  schema: 'JSON Schema',
};

function SettingsList({ settings, models }: { settings: Settings; models: readonly string[] }): ReactNode {
  const set = (Object.keys(LABELS) as (keyof Settings)[]).filter((name) => settings[name] !== NO_SETTINGS[name]);
  return (
    <dl className="saved-settings">
      <div>
        <dt>{models.length === 1 ? 'Model' : 'Models'}</dt>
        <dd>{models.join(', ')}</dd>
      </div>
      {set.map((name) => (
        <div key={name}>
          <dt>{LABELS[name]}</dt>
          <dd>{settings[name]}</dd>
        </div>
      ))}
    </dl>
  );
}
