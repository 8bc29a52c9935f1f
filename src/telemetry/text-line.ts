// Formats log lines as text. A request's line is shorter than its JSON form: status, route, model and duration come
// first, fields with their usual values are omitted, and IDs come last. No side effects.

import pino from 'pino';
import { plain } from '../shared/terminal-color.js';
import type { Color, Paint } from '../shared/terminal-color.js';

const LEVELS: Readonly<Record<string, Color>> = { debug: 'dim', info: 'green', warn: 'yellow', error: 'red' };

/** The usual values of a request's log fields. Fields with these values are omitted. */
const USUAL: Readonly<Record<string, unknown>> = {
  outcome: 'completed',
  admitted: true,
  stream: false,
  cached_tokens: 0,
  queue_ms: 0,
};
/** Fields that are shown last. `loop_ms` and `trace_id` are for investigations. */
const LAST = ['loop_ms', 'organization', 'key', 'client_request_id', 'trace_id', 'request_id'];

type Fields = Readonly<Record<string, unknown>>;

/** A line as text: time in UTC, level, message, then `name=value` for each field, then the stack of an error. */
export function readable(line: object, paint: Paint = plain): string {
  const { time, level, msg, err, ...fields } = line as Record<string, unknown>;
  const isRequest = msg === 'request' && typeof fields['status'] === 'number' && typeof fields['path'] === 'string';
  const { message, shown, ids } = isRequest
    ? requestParts(fields, paint)
    : { message: harmless(String(msg ?? '')).replaceAll('\n', ' '), shown: fields, ids: {} };
  const head = `${paint('dim', String(time))} ${paint(LEVELS[String(level)] ?? 'bold', String(level).padEnd(5))} ${message}`;
  const pairs = [pairsOf(shown), paint('dim', pairsOf(ids))].filter((text) => text !== '').join(' ');
  const stack = stackOf(err);
  return `${pairs === '' ? head : `${head}  ${pairs}`}${stack === null ? '' : `\n${harmless(stack)}`}\n`;
}

/** `200 POST /v1/chat/completions hal-1.0 1198 ms`, and the remaining fields. */
function requestParts(fields: Fields, paint: Paint): { message: string; shown: Fields; ids: Fields } {
  const { status, method, path, model, ms, ...others } = fields;
  const code = Number(status);
  const isFailed = code === 0 || code >= 400 || others['outcome'] === 'failed';
  const color = code >= 500 || others['outcome'] === 'failed' ? 'red' : isFailed ? 'yellow' : 'green';
  const parts = [paint(color, String(status)), show(method), show(path), show(model), duration(ms)];
  const rest = Object.entries(others).filter(([name, value]) => value !== USUAL[name]);
  return {
    message: parts.filter((part) => part !== null).join(' '),
    shown: Object.fromEntries(rest.filter(([name]) => !LAST.includes(name))),
    ids: Object.fromEntries(LAST.map((name) => [name, others[name]])),
  };
}

function duration(ms: unknown): string | null {
  if (typeof ms !== 'number' || !Number.isFinite(ms)) return null;
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 100_000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
}

function pairsOf(fields: Fields): string {
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    const shown = show(value);
    if (shown !== null) pairs.push(`${name}=${shown}`);
  }
  return pairs.join(' ');
}

/** An error's stack, followed by the stacks of its causes. */
function stackOf(err: unknown): string | null {
  const { stack } = Object(pino.stdSerializers.err(err as Error)) as { stack?: unknown };
  return typeof stack === 'string' ? stack : null;
}

/** A field's value as text. Null if the field is omitted, which applies to all values that JSON cannot represent. */
function show(value: unknown): string | null {
  if (typeof value === 'number') return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : null;
  const text = typeof value === 'string' ? value : jsonText(value);
  if (text === null) return null;
  if (/^[\x21-\x7e]+$/.test(text) && !/["=]/.test(text)) return text;
  return harmless(JSON.stringify(text));
}

/** The JSON form of a value. If the JSON form is a string (as for a date), returns the string itself. */
function jsonText(value: unknown): string | null {
  if (typeof value === 'bigint') return String(value);
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch {
    return '[not serializable]'; // a log call must not throw
  }
  if (json === undefined || json === 'null') return null;
  return json.startsWith('"') ? (JSON.parse(json) as string) : json;
}

/** Text from clients, which errors may contain, must not include terminal escape sequences. */
const harmless = (text: string): string => text.replace(/(?!\n)\p{Cc}/gu, ' ');
