// Times of rows: milliseconds since 1970, and the dates of RFC 3339 that records have of them. Pure.

export const dateOf = (ms: number): string => new Date(ms).toISOString();
export const dateOrNull = (ms: number | null): string | null => (ms === null ? null : dateOf(ms));
export const msOrNull = (date: string | null | undefined): number | null => (date == null ? null : Date.parse(date));
