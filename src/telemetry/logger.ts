// The log, as JSON (pino) or as readable lines. Never contains prompt text or keys: each log call names its fields
// explicitly.

import pino from 'pino';
import { stderrLog } from './log-writer.js';
import type { Log } from './types.js';

export interface LogOptions {
  format: 'text' | 'json';
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** Receives the lines. Default: stderr. */
  write?: (line: string) => void;
  /** Included in every line if there are several threads. */
  thread?: number;
}

export interface LeveledLog extends Log {
  /** Whether lines at this level are written, to avoid building lines that would be discarded. */
  writes(level: 'debug' | 'info' | 'warn'): boolean;
  /** Number of this thread's lines that were dropped because standard error was not read fast enough. */
  dropped(): number;
}

const RANKS = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const;
type Level = keyof Omit<typeof RANKS, 'silent'>;

export function createLog({ format, level, write, thread }: LogOptions): LeveledLog {
  const output = write ?? ((line: string) => stderrLog.write(line));
  const base = thread === undefined ? null : { thread };
  const emit = format === 'json' ? jsonLog(level, base, output) : textLog(base, output);
  const writes = (one: Level): boolean => RANKS[one] >= RANKS[level];
  const at = (one: Level) =>
    writes(one) ? (fields: object, message: string) => emit(one, fields, message) : () => undefined;
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    writes,
    dropped: () => (write === undefined ? stderrLog.dropped : 0),
  };
}

type Emit = (level: Level, fields: object, message: string) => void;

function jsonLog(level: LogOptions['level'], base: object | null, write: (line: string) => void): Emit {
  const logger = pino(
    {
      level,
      base,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err },
    },
    { write },
  );
  return (one, fields, message) => logger[one](fields, message);
}

function textLog(base: object | null, write: (line: string) => void): Emit {
  return (level, fields, message) => {
    const time = new Date().toISOString();
    // Errors are usually logged as a field of an object, but a thrown value may also be passed directly.
    const named = fields instanceof Error ? { err: fields } : fields;
    write(readable({ level, time, ...base, ...named, msg: message }));
  };
}

/** `12:34:56.789 info request status=200 …`: a line's fields as text. */
export function readable(line: object): string {
  const { time, level, msg, err, ...fields } = line as Record<string, unknown>;
  const clock = String(time).slice(11, 23);
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    const shown = show(value);
    if (shown !== null) pairs.push(`${name}=${shown}`);
  }
  const head = `${clock} ${String(level).padEnd(5)} ${harmless(String(msg ?? '')).replaceAll('\n', ' ')}`;
  const stack = stackOf(err);
  return `${pairs.length === 0 ? head : `${head}  ${pairs.join(' ')}`}${stack === null ? '' : `\n${harmless(stack)}`}\n`;
}

/** An error's stack, followed by the stacks of its causes. */
function stackOf(err: unknown): string | null {
  const { stack } = Object(pino.stdSerializers.err(err as Error)) as { stack?: unknown };
  return typeof stack === 'string' ? stack : null;
}

/** Null if the field is omitted, as are all values that JSON cannot represent. */
function show(value: unknown): string | null {
  if (typeof value === 'number') return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : null;
  const text = typeof value === 'string' ? value : jsonText(value);
  if (text === null) return null;
  if (/^[\x21-\x7e]+$/.test(text) && !/["=]/.test(text)) return text;
  return harmless(JSON.stringify(text));
}

/** The JSON form of a value. For a string, or a value that serializes to one (a date), the string itself. */
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
