// The audit log of an organization or of the whole server: filters, a table and a download.
import { useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import type { AuditEntry } from '../../../../shared/wire/organizations.js';
import { API, withQuery } from '../api.js';
import { Button, PlainLinkButton } from '../components/button.js';
import { Checkbox, Select, TextField } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { clock, date } from '../format.js';
import '../styles/requests.css';

const NAMES = ['action', 'actor', 'first', 'last', 'temporary'] as const;
type Filter = Readonly<Record<(typeof NAMES)[number], string>>;

/** Subjects of actions: the part of an action before the first dot. */
const SUBJECTS: Readonly<Record<'organization' | 'server', readonly { value: string; label: string }[]>> = {
  organization: [
    { value: 'api_key', label: 'API keys' },
    { value: 'member', label: 'Members' },
    { value: 'service_account', label: 'Service accounts' },
    { value: 'invite', label: 'Invitations' },
    { value: 'webhook', label: 'Webhooks' },
    { value: 'organization', label: 'Organization' },
    { value: 'response', label: 'Stored responses' },
    { value: 'conversation', label: 'Conversations' },
    { value: 'file', label: 'Files' },
    { value: 'batch', label: 'Batches' },
    { value: 'saved', label: 'Saved in the playground' },
  ],
  server: [
    { value: 'user', label: 'Users' },
    { value: 'operator', label: 'Operators' },
    { value: 'model', label: 'Models' },
    { value: 'engine', label: 'Engine settings' },
    { value: 'prices', label: 'Prices' },
    { value: 'alert', label: 'Alerts' },
    { value: 'session', label: 'Sessions' },
  ],
};

const dayAfter = (day: string): string => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);

export interface AuditView {
  readonly filter: Filter;
  readonly isFiltered: boolean;
  /** Query parameters of the API. */
  readonly query: Readonly<Record<string, string>>;
  set(change: Partial<Record<keyof Filter, string>>): void;
  clear(): void;
}

/** Filters kept in the page's address. */
export function useAuditView(): AuditView {
  const [search, setSearch] = useSearchParams();
  return useMemo(() => {
    const filter = Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ''])) as Filter;
    const set: AuditView['set'] = (values) =>
      setSearch(
        (before) => {
          const next = new URLSearchParams(before);
          for (const [name, value] of Object.entries(values)) {
            if (value === '') next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: true },
      );
    const { action, actor, first, last, temporary } = filter;
    const isRange = first === '' || last === '' || first <= last;
    return {
      filter,
      isFiltered: NAMES.some((name) => filter[name] !== ''),
      query: {
        action,
        actor: actor.trim(),
        temporary,
        ...(isRange && first !== '' ? { from: first } : {}),
        ...(isRange && last !== '' ? { to: dayAfter(last) } : {}),
      },
      set,
      clear: () => set(Object.fromEntries(NAMES.map((name) => [name, '']))),
    };
  }, [search, setSearch]);
}

/** `path`: path of the log, relative to the API. `fixed`: query parameters that are not filters of the page. */
export function AuditDownload({
  view,
  path,
  fixed = {},
}: {
  view: AuditView;
  path: string;
  fixed?: Readonly<Record<string, string>>;
}): ReactNode {
  return (
    <PlainLinkButton
      size="small"
      href={`${API}${withQuery(`${path}.csv`, { ...view.query, ...fixed })}`}
      download="audit-log.csv"
    >
      <Icon name="download" /> CSV
    </PlainLinkButton>
  );
}

export function AuditList({
  view,
  queryKey,
  path,
  scope,
  fixed = {},
}: {
  view: AuditView;
  queryKey: readonly unknown[];
  path: string;
  scope: 'organization' | 'server';
  fixed?: Readonly<Record<string, string>>;
}): ReactNode {
  const list = useList<AuditEntry>(queryKey, path, { ...view.query, ...fixed });
  return (
    <>
      <AuditFilters view={view} scope={scope} />
      <Panel flush>
        <ListView
          list={list}
          empty={
            view.isFiltered ? (
              <EmptyState
                icon="audit"
                title="No matching changes"
                action={<Button onClick={view.clear}>Clear filters</Button>}
              />
            ) : (
              <EmptyState icon="audit" title="No changes yet" />
            )
          }
        >
          {(rows) => (
            <Table
              caption="Audit log"
              rows={rows}
              rowKey={(entry) => entry.id}
              columns={[
                {
                  key: 'at',
                  header: 'When',
                  cell: ({ at }) => (
                    <time dateTime={at} className="moment">
                      {date(at)} <span className="muted">{clock(at).slice(0, -4)}</span>
                    </time>
                  ),
                },
                {
                  key: 'action',
                  header: 'Action',
                  heading: true,
                  cell: ({ action }) => <code className="nowrap">{action}</code>,
                },
                {
                  key: 'actor',
                  header: 'By',
                  cell: (entry) => (
                    <div>
                      <span className="audit-actor">{actorOf(entry)}</span>
                      {entry.ip !== null && <span className="cell-sub">{entry.ip}</span>}
                    </div>
                  ),
                },
                {
                  key: 'target',
                  header: 'On',
                  cell: ({ target }) =>
                    target === null ? (
                      <span className="muted">–</span>
                    ) : (
                      <code className="clip audit-target" title={target}>
                        {target}
                      </code>
                    ),
                },
                { key: 'detail', header: 'Detail', cell: (entry) => <Detail entry={entry} /> },
              ]}
            />
          )}
        </ListView>
      </Panel>
    </>
  );
}

function AuditFilters({ view, scope }: { view: AuditView; scope: 'organization' | 'server' }): ReactNode {
  const { filter, set } = view;
  const [actor, setActor] = useState(filter.actor);
  const isWrong = filter.first !== '' && filter.last !== '' && filter.first > filter.last;
  return (
    <div className="request-filters">
      <Select
        label="Subject"
        hideLabel
        value={filter.action}
        onChange={(event) => set({ action: event.target.value })}
        options={[{ value: '', label: 'All changes' }, ...SUBJECTS[scope]]}
      />
      <form
        className="contents"
        onSubmit={(event) => {
          event.preventDefault();
          set({ actor });
        }}
      >
        <TextField
          type="search"
          label="By"
          hideLabel
          placeholder="By email"
          value={actor}
          onChange={(event) => {
            setActor(event.target.value);
            if (event.target.value === '') set({ actor: '' });
          }}
          onBlur={() => set({ actor })}
        />
      </form>
      <div className="inline-fields">
        <TextField
          type="date"
          label="From"
          title="First day (UTC)"
          value={filter.first}
          onChange={(event) => set({ first: event.target.value })}
        />
        <TextField
          type="date"
          label="to"
          title="Last day (UTC)"
          value={filter.last}
          error={isWrong ? 'Must not be before the first day' : null}
          onChange={(event) => set({ last: event.target.value })}
        />
      </div>
      {scope === 'organization' && (
        <Checkbox
          label="Temporary keys"
          title="Include the keys of monolith chat, bench and tuning runs"
          checked={filter.temporary === 'true'}
          onChange={(event) => set({ temporary: event.target.checked ? 'true' : '' })}
        />
      )}
      {view.isFiltered && (
        <Button
          size="small"
          variant="ghost"
          onClick={() => {
            setActor('');
            view.clear();
          }}
        >
          Clear filters
        </Button>
      )}
    </div>
  );
}

function actorOf({ actor }: AuditEntry): string {
  if (actor.type === 'operator_api') return 'Operator API';
  if (actor.type === 'command_line') return 'Command line';
  if (actor.type === 'identity_provider') return 'Identity provider';
  return actor.email ?? actor.id ?? 'User';
}

/** Omits an address that the previous column already shows. */
function Detail({ entry: { actor, detail } }: { entry: AuditEntry }): ReactNode {
  const entries = Object.entries(detail).filter(([name, value]) => name !== 'email' || value !== actor.email);
  if (entries.length === 0) return <span className="muted">–</span>;
  return (
    <ul className="pairs">
      {entries.map(([name, value]) => (
        <li key={name}>
          <span className="muted">{name.replaceAll('_', ' ')}</span> {textOf(name, value)}
        </li>
      ))}
    </ul>
  );
}

const ALL_SCOPES = 8;

function textOf(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === null) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (!Array.isArray(value)) return JSON.stringify(value);
  if ((name === 'models' && value.includes('*')) || (name === 'scopes' && value.length >= ALL_SCOPES)) return 'all';
  return value.length === 0 ? 'none' : value.map((one) => textOf('', one)).join(', ');
}
