// A table of requests. On phones, each request is one line.
import { useEffect, useRef } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { RequestObject, RequestOutcome } from '../../../../shared/wire/requests.js';
import { Badge } from '../components/badge.js';
import type { Tone } from '../components/badge.js';
import { Button } from '../components/button.js';
import type { List } from '../components/list.js';
import { Moment } from '../components/page.js';
import { ErrorState, Skeleton } from '../components/states.js';
import { Table } from '../components/table.js';
import type { Column } from '../components/table.js';
import { count, duration } from '../format.js';
import '../styles/requests.css';

const TONES: Record<RequestOutcome, Tone> = {
  completed: 'ok',
  refused: 'warn',
  failed: 'danger',
  cancelled: 'neutral',
};

export function OutcomeBadge({ outcome, status }: Pick<RequestObject, 'outcome' | 'status'>): ReactNode {
  const isError = outcome !== 'completed' && status !== null;
  return (
    <Badge tone={TONES[outcome]} dot>
      {isError ? (
        <span>
          <span className="wide-only">{outcome} </span>
          {status}
        </span>
      ) : (
        <span>{outcome}</span>
      )}
    </Badge>
  );
}

/**
 * Shows the list's states around its rows. With a filter, a page of results may be empty even though later pages have
 * matches. `live`: new rows are highlighted, and no older rows can be loaded.
 */
export function RequestList({
  list,
  empty,
  linkTo,
  who,
  live,
}: {
  list: List<RequestObject>;
  empty: ReactNode;
  linkTo: (id: string) => string;
  who: Column<RequestObject> | null;
  live: boolean;
}): ReactNode {
  const isFresh = useFresh(list.rows, live);
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
          rowClass={({ id }) => (isFresh(id) ? 'fresh' : undefined)}
          columns={[
            {
              key: 'at',
              header: 'Time',
              heading: true,
              phone: 'fit',
              cell: (request) => (
                <Link className="row-link" href={linkTo(request.id)}>
                  <Moment at={request.received_at} />
                </Link>
              ),
            },
            {
              key: 'model',
              header: 'Model',
              phone: 'grow',
              cell: ({ model, asked_model: asked, method, endpoint }) => (
                <>
                  {model === null && asked === null ? (
                    <span className="phone-only">{endpoint}</span>
                  ) : (
                    <span className={model === null ? 'muted' : undefined}>{model ?? asked}</span>
                  )}
                  <span
                    className={model === null && asked === null ? 'wide-only request-path' : 'cell-sub request-path'}
                  >
                    {method !== null && method !== 'POST' && `${method} `}
                    {endpoint}
                  </span>
                </>
              ),
            },
            {
              key: 'outcome',
              header: 'Outcome',
              phone: 'fit',
              cell: (request) => (
                <>
                  <OutcomeBadge {...request} />
                  {request.code !== null && <span className="cell-sub request-code">{request.code}</span>}
                </>
              ),
            },
            ...(who === null ? [] : [who]),
            {
              key: 'tokens',
              header: 'Tokens',
              numeric: true,
              cell: ({ input_tokens: input, cached_tokens: cached, output_tokens: output }) =>
                input + output === 0 ? (
                  <span className="muted">–</span>
                ) : (
                  <>
                    {count(input)} in, {count(output)} out
                    {cached > 0 && <span className="cell-sub">{count(cached)} cached</span>}
                  </>
                ),
            },
            { key: 'queue', header: 'Queue', numeric: true, cell: ({ queue_ms: ms }) => time(ms) },
            { key: 'first', header: 'First token', numeric: true, cell: ({ first_token_ms: ms }) => time(ms) },
            {
              key: 'duration',
              header: 'Duration',
              numeric: true,
              phone: 'fit',
              cell: ({ duration_ms: ms }) => time(ms),
            },
          ]}
        />
      )}
      {list.hasMore && !live && (
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

/** Returns a function that reports whether a row was added since the list was first shown live. */
function useFresh(rows: readonly RequestObject[], live: boolean): (id: string) => boolean {
  const known = useRef<Set<string> | null>(null);
  const fresh = useRef(new Set<string>());
  useEffect(() => {
    if (!live) known.current = null;
    else if (known.current === null && rows.length > 0) known.current = new Set(rows.map(({ id }) => id));
  });
  if (live && known.current !== null) {
    for (const { id } of rows) if (!known.current.has(id)) fresh.current.add(id);
  }
  return (id) => live && fresh.current.has(id);
}

export const time = (ms: number | null): ReactNode => (ms === null ? <span className="muted">–</span> : duration(ms));
