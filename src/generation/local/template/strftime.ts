// Python's datetime.strftime() in the C locale. No side effects.
import { TemplateFault } from './values.js';

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const MS_OF_DAY = 86_400_000;
const MAX_FORMAT = 256;

/** Directives that are abbreviations for other directives. */
const COMPOSED: Readonly<Record<string, string>> = {
  c: '%a %b %e %H:%M:%S %Y',
  D: '%m/%d/%y',
  F: '%Y-%m-%d',
  h: '%b',
  r: '%I:%M:%S %p',
  R: '%H:%M',
  T: '%H:%M:%S',
  x: '%m/%d/%y',
  X: '%H:%M:%S',
};

/** `now`: the time to format, as local time. An unknown directive is left unchanged. Throws TemplateFault. */
export function strftime(format: string, now: Date): string {
  if (format.length > MAX_FORMAT)
    throw new TemplateFault(`strftime_now(): the argument must be a string of at most ${MAX_FORMAT} characters`);
  return format.replace(/%([-_0^#]?)([a-zA-Z%])/g, (whole, flag: string, directive: string) => {
    const composed = COMPOSED[directive];
    if (composed !== undefined) return cased(strftime(composed, now), flag);
    const field = fieldOf(directive, now);
    if (field === null) return whole;
    if (typeof field === 'string') return cased(field, flag);
    const [number, width, pad] = field;
    const fill = flag === '-' ? '' : flag === '_' ? ' ' : flag === '0' ? '0' : pad;
    return fill === '' ? String(number) : String(number).padStart(width, fill);
  });
}

function cased(text: string, flag: string): string {
  return flag === '^' ? text.toUpperCase() : text;
}

/**
 * Returns the value of a directive: a text, or a number with its width and padding character. Returns null for an
 * unknown directive.
 */
function fieldOf(directive: string, now: Date): string | readonly [number: number, width: number, pad: string] | null {
  const [year, month, day, weekday] = [now.getFullYear(), now.getMonth(), now.getDate(), now.getDay()];
  const hour = now.getHours();
  const dayOfYear = Math.round((Date.UTC(year, month, day) - Date.UTC(year, 0, 1)) / MS_OF_DAY);
  const monday = (weekday + 6) % 7;
  switch (directive) {
    case '%':
      return '%';
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'a':
      return (DAYS[weekday] as string).slice(0, 3);
    case 'A':
      return DAYS[weekday] as string;
    case 'b':
      return (MONTHS[month] as string).slice(0, 3);
    case 'B':
      return MONTHS[month] as string;
    case 'p':
      return hour < 12 ? 'AM' : 'PM';
    case 'P':
      return hour < 12 ? 'am' : 'pm';
    case 'z':
    case 'Z':
      return ''; // a local time without a zone
    case 'Y':
      return [year, 1, '0'];
    case 'C':
      return [Math.floor(year / 100), 2, '0'];
    case 'y':
      return [year % 100, 2, '0'];
    case 'm':
      return [month + 1, 2, '0'];
    case 'd':
      return [day, 2, '0'];
    case 'e':
      return [day, 2, ' '];
    case 'H':
      return [hour, 2, '0'];
    case 'k':
      return [hour, 2, ' '];
    case 'I':
      return [hour % 12 || 12, 2, '0'];
    case 'l':
      return [hour % 12 || 12, 2, ' '];
    case 'M':
      return [now.getMinutes(), 2, '0'];
    case 'S':
      return [now.getSeconds(), 2, '0'];
    case 'f':
      return [now.getMilliseconds() * 1_000, 6, '0'];
    case 's':
      return [Math.floor(now.getTime() / 1_000), 1, '0'];
    case 'j':
      return [dayOfYear + 1, 3, '0'];
    case 'w':
      return [weekday, 1, '0'];
    case 'u':
      return [monday + 1, 1, '0'];
    case 'U':
      return [Math.floor((dayOfYear + 7 - weekday) / 7), 2, '0'];
    case 'W':
      return [Math.floor((dayOfYear + 7 - monday) / 7), 2, '0'];
    case 'G':
      return [isoWeek(now).year, 1, '0'];
    case 'g':
      return [isoWeek(now).year % 100, 2, '0'];
    case 'V':
      return [isoWeek(now).week, 2, '0'];
    default:
      return null;
  }
}

/** An ISO week belongs to the year that contains its Thursday. */
function isoWeek(now: Date): { year: number; week: number } {
  const thursday = new Date(Date.UTC(now.getFullYear(), now.getMonth(), now.getDate() + 3 - ((now.getDay() + 6) % 7)));
  const year = thursday.getUTCFullYear();
  return { year, week: 1 + Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / (7 * MS_OF_DAY)) };
}
