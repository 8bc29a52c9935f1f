// The log: pino, to stderr, as JSON or as lines for people. Never prompt text, never keys: what goes in is
// named field by field where it is logged.

import pino from 'pino';
import type { Log } from './types.js';

export interface LogOptions {
  format: 'text' | 'json';
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** Where lines go; stderr if unset. */
  write?: (line: string) => void;
  /** Named in every line, where there are several. */
  thread?: number;
}

export interface LeveledLog extends Log {
  /** Whether such a line is written at all: for what is put together for it alone. */
  writes(level: 'debug' | 'info' | 'warn'): boolean;
}

export function createLog(options: LogOptions): LeveledLog {
  const write =
    options.write ??
    ((line: string) => {
      process.stderr.write(line);
    });
  const logger = pino(
    {
      level: options.level,
      base: options.thread === undefined ? null : { thread: options.thread },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err },
    },
    { write: options.format === 'json' ? write : (line: string) => write(readable(line)) },
  );
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    writes: (level) => logger.isLevelEnabled(level),
  };
}

/** `12:34:56.789 info  request  status=200 …` from one JSON line. */
export function readable(line: string): string {
  const { time, level, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const clock = String(time).slice(11, 23);
  const pairs = Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}=${show(value)}`);
  const head = `${clock} ${String(level).padEnd(5)} ${harmless(String(msg ?? '')).replaceAll('\n', ' ')}`;
  const stack = typeof err === 'object' && err !== null && 'stack' in err ? `\n${harmless(String(err.stack))}` : '';
  return `${pairs.length === 0 ? head : `${head}  ${pairs.join(' ')}`}${stack}\n`;
}

function show(value: unknown): string {
  if (typeof value === 'number') return String(Math.round(value * 100) / 100);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (/^[\x21-\x7e]+$/.test(text) && !/["=]/.test(text)) return text;
  return harmless(JSON.stringify(text));
}

/** A client's text, which errors have in them too, must not steer the terminal. */
const harmless = (text: string): string => text.replace(/(?!\n)\p{Cc}/gu, ' ');
