// The log: pino, to stderr, as JSON or as readable lines. Never contains prompt text or keys: every field is named
// explicitly where it is logged.

import pino from 'pino';
import type { Log } from './types.js';

export interface LogOptions {
  format: 'text' | 'json';
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** Receives the lines; stderr if unset. */
  write?: (line: string) => void;
  /** Included in every line if there are several threads. */
  thread?: number;
}

export interface LeveledLog extends Log {
  /** Whether lines of this level are written; avoids building lines that would be discarded. */
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

/** `12:34:56.789 info request status=200 …` from one JSON line. */
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

/** Text from clients, which errors may contain, must not include terminal escape sequences. */
const harmless = (text: string): string => text.replace(/(?!\n)\p{Cc}/gu, ' ');
