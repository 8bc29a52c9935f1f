// What happened in the rounds: what clients asked and were told, what was generated, what went wrong on purpose. All times are
// milliseconds of the test process's clock, which is the only one. Nothing is left out, so that a failing round can be read.

/** What clients do. `hold`: a stream that is left; `ask`: an answer that counts against requests per minute. */
export type What =
  | 'hold'
  | 'ask'
  | 'store'
  | 'continue'
  | 'read'
  | 'remove'
  | 'background'
  | 'cancel'
  | 'replay'
  | 'foreign';

export interface Operation {
  kind: 'operation';
  /** Of all operations; a generation is known by it, because its prompt says it. */
  n: number;
  round: number;
  what: What;
  /** The process that is asked, and which of its lives. */
  process: number;
  life: number;
  organization: number;
  /** The key it is counted with. */
  key: string;
  /** The operation whose response it is about or continues. */
  of: number | null;
  began: number;
  ended: number;
  /** Null: there was no whole answer. */
  status: number | null;
  code: string | null;
  /** Of the response it made. */
  id: string | null;
  /** `status` of the response that was read, and its text. */
  state: string | null;
  text: string | null;
  /** Something generated was seen, so it is counted whatever becomes of it. */
  seen: boolean;
  /** Asked when all was well again: nothing may be refused. */
  quiet: boolean;
  /** What else was not as it should be, in words. */
  odd: string | null;
}

/** As the engine saw it: between these times the request had its place. */
export interface Generation {
  kind: 'generation';
  n: number;
  from: number;
  to: number;
  messages: readonly string[];
}

/** A process counted alone. */
export interface Away {
  kind: 'away';
  process: number;
  life: number;
  from: number;
  to: number;
  processes: number;
}

export interface Fault {
  kind: 'fault';
  round: number;
  what: string;
  at: number;
}

export interface Life {
  kind: 'life';
  process: number;
  life: number;
  threads: number;
  from: number;
  killed: number | null;
}

/** Places that the counters' engine still holds when nothing is under way. */
export interface Left {
  kind: 'left';
  round: number;
  at: number;
  places: number;
}

export type Entry = Operation | Generation | Away | Fault | Life | Left;

/** Limits of each key. */
export interface Bounds {
  places: number;
  perMinute: number;
}

/** What a generation says, by the prompt of it. */
export const promptOf = (n: number, tokens: number, gapMs: number): string => `#${n} ${tokens} ${gapMs}`;
export const answerTo = (prompt: string): string => {
  const [n = '', tokens = '0'] = prompt.slice(1).split(' ');
  return `${n}:${Array.from({ length: Number(tokens) }, (_, at) => ` w${at}`).join('')}`;
};
