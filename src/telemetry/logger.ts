// The log, as JSON (pino) or as readable lines. Never contains prompt text or keys: each log call names its fields
// explicitly.

import pino from 'pino';
import { stderrLog } from './log-writer.js';
import { paintFor, wantsColor } from '../shared/terminal-color.js';
import type { Paint } from '../shared/terminal-color.js';
import { readable } from './text-line.js';
import type { Log } from './types.js';

export interface LogOptions {
  format: 'text' | 'json';
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** Receives the lines. Default: stderr. */
  write?: (line: string) => void;
  /** Included in every line if there are several threads. */
  thread?: number;
  /**
   * Whether text lines have colors. By default, they have colors if they are written to stderr and stderr can show
   * them.
   */
  colors?: boolean;
}

export interface LeveledLog extends Log {
  /** Whether lines at this level are written, to avoid building lines that would be discarded. */
  writes(level: 'debug' | 'info' | 'warn'): boolean;
  /** Number of this thread's log lines that were dropped because standard error was not read fast enough. */
  dropped(): number;
}

const RANKS = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const;
type Level = keyof Omit<typeof RANKS, 'silent'>;

export function createLog({ format, level, write, thread, colors }: LogOptions): LeveledLog {
  const output = write ?? ((line: string) => stderrLog.write(line));
  const base = thread === undefined ? null : { thread };
  const paint = paintFor(colors ?? (write === undefined && wantsColor(2)));
  const emit = format === 'json' ? jsonLog(level, base, output) : textLog(base, output, paint);
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

function textLog(base: object | null, write: (line: string) => void, paint: Paint): Emit {
  return (level, fields, message) => {
    const time = new Date().toISOString();
    // Errors are usually logged as a field of an object, but a thrown value may also be passed directly.
    const named = fields instanceof Error ? { err: fields } : fields;
    write(readable({ level, time, ...base, ...named, msg: message }, paint));
  };
}
