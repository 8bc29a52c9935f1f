// The time ranges of the live view. No side effects.

export type LiveRange = '5m' | '1h' | '6h' | '24h' | '7d' | '30d';
export const LIVE_RANGES: readonly { value: LiveRange; label: string; seconds: number; words: string }[] = [
  { value: '5m', label: '5 min', seconds: 300, words: 'last 5 minutes' },
  { value: '1h', label: '1 h', seconds: 3_600, words: 'last hour' },
  { value: '6h', label: '6 h', seconds: 21_600, words: 'last 6 hours' },
  { value: '24h', label: '24 h', seconds: 86_400, words: 'last 24 hours' },
  { value: '7d', label: '7 d', seconds: 604_800, words: 'last 7 days' },
  { value: '30d', label: '30 d', seconds: 2_592_000, words: 'last 30 days' },
];

/** Seconds since the Unix epoch. */
export interface Span {
  from: number;
  to: number;
}

export const secondsOf = (range: LiveRange): number => LIVE_RANGES.find(({ value }) => value === range)?.seconds ?? 300;
export const wordsOf = (range: LiveRange): string => LIVE_RANGES.find(({ value }) => value === range)?.words ?? '';
/**
 * How often the data of the range is fetched again. The server extends the recorded history at most every ten seconds,
 * and less often for long ranges.
 */
export const refreshMs = (range: LiveRange): number => Math.min(60_000, Math.max(10_000, secondsOf(range) * 2));
export const queryOf = ({ from, to }: Span): { from: string; to: string } => ({
  from: new Date(from * 1000).toISOString(),
  to: new Date(to * 1000).toISOString(),
});
/** The range that ends now. */
export function spanOf(range: LiveRange, now = Date.now()): Span {
  const to = Math.ceil(now / 1000);
  return { from: to - secondsOf(range), to };
}
