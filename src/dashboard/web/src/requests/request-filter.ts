// The filters of a request list, kept in the page's address so that the view can be shared.
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

export const RANGES = [
  { value: '', label: 'All' },
  { value: '15m', label: '15 min', ms: 900_000 },
  { value: '1h', label: '1 h', ms: 3_600_000 },
  { value: '24h', label: '24 h', ms: 86_400_000 },
  { value: 'custom', label: 'Custom' },
] as const;
export type RequestRange = (typeof RANGES)[number]['value'];

const NAMES = ['api_key', 'model', 'outcome', 'request_id', 'organization', 'range', 'from', 'to'] as const;
type Name = (typeof NAMES)[number];
export type RequestFilter = Readonly<Record<Name, string>>;

export interface RequestView {
  readonly filter: RequestFilter;
  readonly isFiltered: boolean;
  /** Query parameters of the API for the filters. Relative ranges end now. */
  query(): Record<string, string>;
  set(change: Partial<Record<Name, string>>): void;
  clear(): void;
  readonly live: boolean;
  setLive(live: boolean): void;
  /** The open request's ID, or null. */
  readonly opened: string | null;
  /** The address that opens a request on this page. */
  linkTo(id: string): string;
  close(): void;
}

/** `datetime-local` values are local times without a zone. Null if the value is not a time. */
const localTime = (value: string): string | null => {
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
};

export const isRange = (value: string): value is RequestRange => RANGES.some((range) => range.value === value);

/** `path`: path of the page, relative to /dashboard. */
export function useRequestView(path: string): RequestView {
  const [search, setSearch] = useSearchParams();
  return useMemo(() => {
    const filter = Object.fromEntries(NAMES.map((name) => [name, search.get(name) ?? ''])) as RequestFilter;
    const change = (values: Readonly<Record<string, string>>, replace: boolean): void =>
      setSearch(
        (before) => {
          const next = new URLSearchParams(before);
          for (const [name, value] of Object.entries(values)) {
            if (value === '') next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace },
      );
    return {
      filter,
      isFiltered: NAMES.some((name) => filter[name] !== ''),
      query: () => {
        const { range, from, to, ...rest } = filter;
        const known = RANGES.find(({ value }) => value === range);
        const since =
          known !== undefined && 'ms' in known ? new Date(Date.now() - known.ms).toISOString() : localTime(from);
        const until = range === 'custom' ? localTime(to) : null;
        return {
          ...rest,
          request_id: rest.request_id.trim(),
          ...(since === null || range === '' ? {} : { from: since }),
          ...(until === null ? {} : { to: until }),
        };
      },
      set: (values) => change(values, true),
      clear: () => change(Object.fromEntries(NAMES.map((name) => [name, ''])), true),
      live: search.get('live') === '1',
      setLive: (live) => change({ live: live ? '1' : '' }, true),
      opened: search.get('request'),
      linkTo: (id) => {
        const next = new URLSearchParams(search);
        next.set('request', id);
        return `${path}?${next}`;
      },
      close: () => change({ request: '' }, true),
    };
  }, [search, setSearch, path]);
}
