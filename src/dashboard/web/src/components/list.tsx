// Paginated API lists: all rows loaded so far, and a button to load more.
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import { api } from '../api.js';
import { Button } from './button.js';
import { ErrorState, Skeleton } from './states.js';

type Query = Record<string, string | number | boolean | null | undefined>;

export interface List<T> {
  rows: readonly T[];
  loading: boolean;
  error: unknown;
  hasMore: boolean;
  loadingMore: boolean;
  more(): void;
  retry(): void;
}

/**
 * A list at a path relative to /dashboard/api. `key` is the key for queryClient.invalidateQueries. `everyMs`: how often
 * the loaded pages are refreshed.
 */
export function useList<T>(
  key: readonly unknown[],
  path: string,
  query: Query = {},
  pageSize = 50,
  everyMs: number | null = null,
): List<T> {
  const result = useInfiniteQuery({
    queryKey: [...key, query],
    queryFn: ({ pageParam, signal }) =>
      api.get<ListPage<T>>(path, { ...query, limit: pageSize, after: pageParam }, signal),
    // The list is always fetched again, because a newly opened list must include changes made a second ago.
    refetchOnMount: 'always',
    refetchInterval: everyMs ?? false,
    placeholderData: everyMs === null ? undefined : (old) => old,
    initialPageParam: null as string | null,
    getNextPageParam: (page) => (page.has_more ? page.next : null),
  });
  return {
    rows: result.data?.pages.flatMap(({ data }) => data) ?? [],
    loading: result.isPending,
    error: result.data === undefined ? result.error : null,
    hasMore: result.hasNextPage,
    loadingMore: result.isFetchingNextPage,
    more: () => {
      void result.fetchNextPage();
    },
    retry: () => {
      void result.refetch();
    },
  };
}

/** Shows a list's state around its rows (loading, failed or empty), and the button to load more. */
export function ListView<T>({
  list,
  empty,
  children,
}: {
  list: List<T>;
  empty: ReactNode;
  children: (rows: readonly T[]) => ReactNode;
}): ReactNode {
  if (list.loading)
    return (
      <div className="panel-pad">
        <Skeleton rows={4} height={20} />
      </div>
    );
  if (list.error !== null) return <ErrorState error={list.error} onRetry={list.retry} />;
  if (list.rows.length === 0) return empty;
  return (
    <>
      {children(list.rows)}
      {list.hasMore && (
        <div className="load-more">
          <Button busy={list.loadingMore} onClick={list.more}>
            Load more
          </Button>
        </div>
      )}
    </>
  );
}
