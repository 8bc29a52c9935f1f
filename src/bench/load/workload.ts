// Converts a workload specification to sessions. The n-th session is always the same, so threads need to share only the
// number of the next one. No side effects.

import { drawLength } from './lengths.js';
import { drawsFrom, seedOf } from '../../shared/random.js';
import { TextMaker } from './text-maker.js';
import type { Session, TextMeasure, Turn, TraceRow, WorkloadSpec } from './types.js';

export interface Workload {
  /** Number of sessions; null if endless. Sessions from files are repeated after the last one. */
  readonly sessions: number | null;
  /** The n-th session; null after the last one of a trace. */
  session(n: number): Session | null;
  /** The time of a session in the trace; null if it has none. */
  at(n: number): number | null;
}

type Synthetic = Extract<WorkloadSpec, { kind: 'synthetic' }>;
type Conversations = Extract<WorkloadSpec, { kind: 'conversations' }>;
type Trace = Extract<WorkloadSpec, { kind: 'trace' }>;

// One derived seed per purpose.
const LENGTHS = 1,
  PROMPT = 2,
  PREFIX = 3,
  BLOCK = 4;

export function openWorkload(spec: WorkloadSpec, measure: TextMeasure): Workload {
  const maker = new TextMaker(measure);
  switch (spec.kind) {
    case 'synthetic':
      return { sessions: null, at: () => null, session: (n) => synthetic(spec, maker, n) };
    case 'conversations':
      return conversations(spec);
    case 'trace':
      return trace(spec, maker);
  }
}

function synthetic(spec: Synthetic, maker: TextMaker, n: number): Session {
  const draws = drawsFrom(seedOf(spec.seed, LENGTHS, n));
  const { prefixes } = spec;
  const prefix = prefixes === null ? null : maker.text(prefixes.tokens, spec.seed, PREFIX, draws.below(prefixes.count));
  const turns = Array.from({ length: drawLength(spec.turns, draws) }, (_, turn): Turn => {
    const wanted = drawLength(spec.prompt, draws);
    // A server's prompt token count includes the chat template's tokens.
    const own = turn === 0 ? Math.max(1, wanted - maker.overhead) : wanted;
    return {
      text: maker.text(own, spec.seed, PROMPT, n, turn),
      maxTokens: drawLength(spec.output, draws),
      schema: spec.schema,
      thinkMs: turn === 0 ? 0 : spec.thinkMs,
      promptTokens: wanted,
    };
  });
  return { at: null, system: prefix, turns };
}

function conversations({ sessions, schema }: Conversations): Workload {
  const at = (n: number): number | null => sessions[n]?.at ?? null;
  return {
    sessions: null,
    at,
    session: (n) => {
      const session = sessions[n % sessions.length] as Session;
      return schema === null
        ? session
        : { ...session, turns: session.turns.map((turn) => ({ ...turn, schema: turn.schema ?? schema })) };
    },
  };
}

function trace(spec: Trace, maker: TextMaker): Workload {
  const { rows, blockTokens, seed, schema } = spec;
  const textOf = (row: TraceRow, n: number): string => {
    let text = '';
    let left = Math.max(1, row.promptTokens - maker.overhead);
    // The prompt's last block is usually incomplete. Its text is then a prefix of the text of the complete block.
    for (const block of row.blocks ?? []) {
      if (left <= 0) break;
      text += maker.text(Math.min(left, blockTokens), seed, BLOCK, block);
      left -= blockTokens;
    }
    return left > 0 ? text + maker.text(left, seed, PROMPT, n) : text;
  };
  return {
    sessions: rows.length,
    at: (n) => rows[n]?.at ?? null,
    session: (n) => {
      const row = rows[n];
      if (row === undefined) return null;
      return {
        at: row.at,
        system: null,
        turns: [
          { text: textOf(row, n), maxTokens: row.outputTokens, schema, thinkMs: 0, promptTokens: row.promptTokens },
        ],
      };
    },
  };
}
