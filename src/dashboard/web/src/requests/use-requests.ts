// Loads the requests that match the list's filters, and reloads them while live updates are on.
import { useMemo, useState } from 'react';
import type { RequestObject } from '../../../../shared/wire/requests.js';
import { useList } from '../components/list.js';
import type { List } from '../components/list.js';
import { isSearchable } from './request-filters.js';
import type { RequestView } from './request-filter.js';

const LIVE_MS = 2_000;
const NONE: List<RequestObject> = {
  rows: [],
  loading: false,
  error: null,
  hasMore: false,
  loadingMore: false,
  more: () => undefined,
  retry: () => undefined,
};

/** `path`: path of the list, relative to the API. `fixed`: query parameters that are not filters of the page. */
export function useRequests(
  key: readonly unknown[],
  path: string,
  view: RequestView,
  fixed: Readonly<Record<string, string>> = {},
): { list: List<RequestObject>; refresh: () => void } {
  const [refreshed, setRefreshed] = useState(0);
  const { filter, live } = view;
  const signature = JSON.stringify(filter);
  // Memoized, because a relative range would otherwise start at a new time on every render and reload the list.
  const query = useMemo(() => (isSearchable(view) ? view.query() : {}), [signature, refreshed]);
  const list = useList<RequestObject>(
    [...key, live ? 'live' : refreshed],
    path,
    { ...query, ...fixed },
    50,
    live ? LIVE_MS : null,
  );
  return {
    list: isSearchable(view) ? list : NONE,
    refresh: () => setRefreshed((times) => times + 1),
  };
}
