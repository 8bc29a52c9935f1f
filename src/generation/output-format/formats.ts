// The named formats of strings that are held to; any other name is an annotation. Pure, and quick on any input.
import { isIPv4, isIPv6 } from 'node:net';

/** No value of these formats is longer, except addresses of pages, which are cut here. */
const MAX_LENGTH = 8_192;

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isDate(text: string): boolean {
  const found = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
  if (found === null) return false;
  const [year, month, day] = found.slice(1).map(Number) as [number, number, number];
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month >= 1 && month <= 12 && day >= 1 && day <= (month === 2 && leap ? 29 : DAYS[month - 1]!);
}

/** RFC 3339: with an offset, and second 60 only where it is 23:59 in UTC. */
function isTime(text: string): boolean {
  const found = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:z|([+-])(\d\d):(\d\d))$/i.exec(text);
  if (found === null) return false;
  const [hour, minute, second, offsetHour, offsetMinute] = [found[1], found[2], found[3], found[5] ?? 0, found[6] ?? 0].map(Number) as [number, number, number, number, number];
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false;
  if (second < 60) return true;
  const sign = found[4] === '-' ? 1 : -1;
  const utc = hour * 60 + minute + sign * (offsetHour * 60 + offsetMinute);
  return (utc + 2 * 1440) % 1440 === 1439;
}

function isDateTime(text: string): boolean {
  return /^.{10}[t ]/is.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11));
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;

function isHostname(text: string): boolean {
  const name = text.endsWith('.') ? text.slice(0, -1) : text;
  return name.length <= 253 && name.split('.').every((label) => LABEL.test(label));
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@');
  if (at < 1 || at > 64) return false;
  return text.slice(0, at).split('.').every((atom) => /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+$/i.test(atom)) && isHostname(text.slice(at + 1));
}

function isUri(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:(?:%[0-9a-f]{2}|[a-z0-9._~:/?#[\]@!$&'()*+,;=-])*$/i.test(text) && /^[^#]*(?:#[^#]*)?$/.test(text);
}

const CHECKS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: isTime,
  'date-time': isDateTime,
  duration: (text) => /^P(?!$)(?:(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?|\d+W)$/.test(text),
  email: isEmail,
  hostname: isHostname,
  ipv4: isIPv4,
  ipv6: (text) => !text.includes('%') && isIPv6(text),
  uuid: (text) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
  uri: isUri,
};

export const FORMATS: ReadonlySet<string> = new Set(Object.keys(CHECKS));

/** True for a format that is not among FORMATS. */
export function hasFormat(text: string, format: string): boolean {
  const check = FORMATS.has(format) ? CHECKS[format] : undefined;
  return check === undefined || (text.length <= MAX_LENGTH && check(text));
}
