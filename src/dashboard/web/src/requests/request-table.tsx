// A table of requests, with filters above it.
import type { ReactNode } from 'react';
import { REQUEST_OUTCOMES } from '../../../../shared/wire/requests.js';
import type { RequestObject, RequestOutcome } from '../../../../shared/wire/requests.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Select } from '../components/field.js';
import { Icon } from '../components/icon.js';
import type { List } from '../components/list.js';
import { Time } from '../components/page.js';
import { ErrorState, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import type { Column } from '../components/table.js';
import { count, duration } from '../format.js';
import '../styles/requests.css';

export interface RequestFilter {
  api_key: string;
  model: string;
  outcome: string;
}
export const NO_FILTER: RequestFilter = { api_key: '', model: '', outcome: '' };

const TONES: Record<RequestOutcome, Tone> = {
  completed: 'ok',
  refused: 'warn',
  failed: 'danger',
  cancelled: 'neutral',
};

export function OutcomeBadge({ outcome, status, code }: Pick<RequestObject, 'outcome' | 'status' | 'code'>): ReactNode {
  return (
    <span title={code ?? undefined}>
      <Badge tone={TONES[outcome]} dot>
        {outcome}
        {outcome !== 'completed' && status !== null && ` ${status}`}
      </Badge>
    </span>
  );
}

export interface Choice {
  value: string;
  label: string;
}

/** `extra`: filters that only the calling page has. */
export function RequestFilters({
  filter,
  onChange,
  keys,
  models,
  extra,
}: {
  filter: RequestFilter;
  onChange: (filter: RequestFilter) => void;
  keys: readonly Choice[] | null;
  models: readonly string[];
  extra?: ReactNode;
}): ReactNode {
  return (
    <div className="request-filters">
      {extra}
      {keys !== null && (
        <Select
          label="API key"
          value={filter.api_key}
          onChange={(event) => onChange({ ...filter, api_key: event.target.value })}
          options={[{ value: '', label: 'All keys' }, ...keys]}
        />
      )}
      <Select
        label="Model"
        value={filter.model}
        onChange={(event) => onChange({ ...filter, model: event.target.value })}
        options={[{ value: '', label: 'All models' }, ...models.map((name) => ({ value: name, label: name }))]}
      />
      <Select
        label="Outcome"
        value={filter.outcome}
        onChange={(event) => onChange({ ...filter, outcome: event.target.value })}
        options={[
          { value: '', label: 'All outcomes' },
          ...REQUEST_OUTCOMES.map((name) => ({ value: name, label: name })),
        ]}
      />
    </div>
  );
}

/**
 * Shows the list's states around its rows. With a filter, a page of results may be empty even though later pages have
 * matches.
 */
export function RequestList({
  list,
  empty,
  onOpen,
  who,
}: {
  list: List<RequestObject>;
  empty: ReactNode;
  onOpen: (request: RequestObject) => void;
  who: Column<RequestObject>;
}): ReactNode {
  if (list.loading)
    return (
      <div className="panel-pad">
        <Skeleton rows={6} height={20} />
      </div>
    );
  if (list.error !== null) return <ErrorState error={list.error} onRetry={list.retry} />;
  if (list.rows.length === 0 && !list.hasMore) return empty;
  return (
    <>
      {list.rows.length > 0 && (
        <Table
          caption="Requests"
          rows={list.rows}
          rowKey={({ id }) => id}
          columns={[
            {
              key: 'at',
              header: 'Ended',
              heading: true,
              cell: (request) => (
                <button
                  type="button"
                  className="link-button nowrap"
                  aria-label={`Open ${request.request_id}`}
                  onClick={() => onOpen(request)}
                >
                  <Time at={request.at} />
                </button>
              ),
            },
            { key: 'outcome', header: 'Outcome', cell: (request) => <OutcomeBadge {...request} /> },
            {
              key: 'model',
              header: 'Model',
              cell: ({ model, endpoint }) => (
                <div>
                  <span className="nowrap">{model ?? '–'}</span>
                  <span className="cell-sub nowrap">{endpoint}</span>
                </div>
              ),
            },
            who,
            {
              key: 'tokens',
              header: 'Tokens',
              numeric: true,
              cell: ({ input_tokens: input, cached_tokens: cached, output_tokens: output }) => (
                <div>
                  {count(input)} in, {count(output)} out
                  {cached > 0 && <span className="cell-sub">{count(cached)} cached</span>}
                </div>
              ),
            },
            { key: 'queue', header: 'Queue', numeric: true, cell: ({ queue_ms: ms }) => time(ms) },
            { key: 'first', header: 'First token', numeric: true, cell: ({ first_token_ms: ms }) => time(ms) },
            { key: 'duration', header: 'Duration', numeric: true, cell: ({ duration_ms: ms }) => time(ms) },
          ]}
        />
      )}
      {list.hasMore && (
        <div className="load-more">
          {list.rows.length === 0 && <span className="muted">No matches among the newest requests.</span>}
          <Button busy={list.loadingMore} onClick={list.more}>
            {list.rows.length === 0 ? 'Search older requests' : 'Load more'}
          </Button>
        </div>
      )}
    </>
  );
}

export function RefreshButton({ list }: { list: List<RequestObject> }): ReactNode {
  return (
    <Button size="small" onClick={list.retry}>
      <Icon name="refresh" /> Refresh
    </Button>
  );
}

export const time = (ms: number | null): string => (ms === null ? '–' : duration(ms));
