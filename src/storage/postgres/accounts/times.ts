// Converts between the times in rows (milliseconds since the Unix epoch) and in records (RFC 3339). No side effects.

export const dateOf = (ms: number): string => new Date(ms).toISOString();
export const dateOrNull = (ms: number | null): string | null => (ms === null ? null : dateOf(ms));
export const msOrNull = (date: string | null | undefined): number | null => (date == null ? null : Date.parse(date));
