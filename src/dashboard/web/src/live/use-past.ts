// Fetches the live view's recorded history over a range: aggregated samples and the times of setting changes.
import { useQuery } from '@tanstack/react-query';
import type { UseQueryResult } from '@tanstack/react-query';
import type { LiveHistory, LiveKeys, LiveMark } from '../../../../shared/wire/live.js';
import { api } from '../api.js';
import { queryOf, refreshMs, spanOf } from './ranges.js';
import type { LiveRange, Span } from './ranges.js';
import { Samples } from './samples.js';

export interface Past {
  samples: Samples;
  marks: readonly LiveMark[];
  span: Span;
  stepS: number;
  version: number;
}

interface Refreshing {
  /** Whether to fetch at all. */
  wanted: boolean;
  /** If true, the data is not refetched. */
  paused: boolean;
}

/** If `zoom` is set, the range is fixed; otherwise, it ends now. */
export function usePast(range: LiveRange, zoom: Span | null, { wanted, paused }: Refreshing): UseQueryResult<Past> {
  return useQuery({
    queryKey: ['operator', 'live', 'past', range, zoom],
    queryFn: async ({ signal }) => {
      const span = zoom ?? spanOf(range);
      const {
        samples,
        marks,
        step_s: stepS,
      } = await api.get<LiveHistory>('/operator/live/history', queryOf(span), signal);
      return { samples: Samples.of(samples, stepS), marks, span, stepS, version: Date.now() };
    },
    enabled: wanted,
    placeholderData: (old) => old,
    refetchInterval: zoom === null && !paused ? refreshMs(range) : false,
  });
}

export function useSenders(
  range: LiveRange,
  zoom: Span | null,
  organization: string,
  paused: boolean,
): UseQueryResult<LiveKeys & { span: Span }> {
  return useQuery({
    queryKey: ['operator', 'live', 'keys', range, zoom, organization],
    queryFn: async ({ signal }) => {
      const span = zoom ?? spanOf(range);
      return { ...(await api.get<LiveKeys>('/operator/live/keys', { ...queryOf(span), organization }, signal)), span };
    },
    placeholderData: (old) => old,
    refetchInterval: zoom === null && !paused ? refreshMs(range) : false,
  });
}
