// Formats numbers, times and names for display.
import type { ApiKeyObject } from '../../../shared/wire/api-keys.js';

const locale = 'en-GB';
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** 1,234,567 */
export const count = (value: number): string => whole.format(value);
/** 1.2M */
export const short = (value: number): string =>
  Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
/** A fraction from 0 to 1 as 12.3%; null as a dash. */
export const percent = (share: number | null): string =>
  share === null ? '–' : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
/** 512 MiB */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit++;
  }
  return `${left >= 100 || unit === 0 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}
/** <0.1 ms, 950 ms, 12.3 s, 4 min, 3 h, 2 d */
export function duration(ms: number): string {
  if (ms > 0 && ms < 0.05) return '<0.1 ms';
  if (ms < 1000) return `${ms < 10 && !Number.isInteger(ms) ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

const dateTimeFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' });
const dateFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium' });
export const dateTime = (time: string | number | Date): string => dateTimeFormat.format(new Date(time));
export const date = (time: string | number | Date): string => dateFormat.format(new Date(time));

const clockFormat = new Intl.DateTimeFormat(locale, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
});
const dayFormat = new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short' });
/** 15:04:05.123 */
export const clock = (time: string | number | Date): string => clockFormat.format(new Date(time));
/** 21 Nov */
export const day = (time: string | number | Date): string => dayFormat.format(new Date(time));
/** Whether two times are on the same local day. */
export const isSameDay = (a: string | number | Date, b: string | number | Date): boolean =>
  new Date(a).toDateString() === new Date(b).toDateString();

const relativeFormat = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
/** Formats a relative time: "3 minutes ago", "in 2 days", or "just now" for less than a minute ago. */
export function relative(time: string | number | Date, now = Date.now()): string {
  const seconds = (new Date(time).getTime() - now) / 1000;
  const size = Math.abs(seconds);
  if (size < 60) return seconds <= 1 ? 'just now' : 'in less than a minute';
  if (size < 3_600) return relativeFormat.format(Math.round(seconds / 60), 'minute');
  if (size < 86_400) return relativeFormat.format(Math.round(seconds / 3_600), 'hour');
  if (size < 30 * 86_400) return relativeFormat.format(Math.round(seconds / 86_400), 'day');
  if (size < 365 * 86_400) return relativeFormat.format(Math.round(seconds / (30 * 86_400)), 'month');
  return relativeFormat.format(Math.round(seconds / (365 * 86_400)), 'year');
}

/** The part of a key that may be displayed: sk-Ab12Cd34…wxyz */
export const keyHint = (key: Pick<ApiKeyObject, 'prefix' | 'last4'>): string => `${key.prefix ?? ''}…${key.last4}`;

/** "1 key", "2 keys" */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
