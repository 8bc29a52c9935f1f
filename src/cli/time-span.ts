// Parses time spans in command-line flags.

/** Converts 90d, 12h, 30m, 45s or 0 to milliseconds. Returns null if the text is not a time span. */
export function timeSpan(text: string): number | null {
  const [, count, unit = ''] = /^(\d{1,6})([dhms]?)$/.exec(text) ?? [];
  const each = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 }[unit];
  return count === undefined ? null : each === undefined ? (count === '0' ? 0 : null) : Number(count) * each;
}
