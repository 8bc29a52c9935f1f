// Everything that happened in the rounds: the clients' requests and responses, the generations, and the injected
// faults. All times are in milliseconds on the test process's clock, which is the only clock used. Nothing is left out,
// so that a failing round can be analyzed.

/**
 * The clients' operations. `hold`: a stream from which the client disconnects; `ask`: a request that counts toward the
 * requests per minute.
 */
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
  /** The operation's number. The prompt contains it, so it identifies the generation. */
  n: number;
  round: number;
  what: What;
  /** The process that received the request, and how many times it had been started. */
  process: number;
  life: number;
  organization: number;
  /** The API key whose limits apply to the request. */
  key: string;
  /** The earlier operation whose response is read, deleted or continued. */
  of: number | null;
  began: number;
  ended: number;
  /** Null if there was no complete response. */
  status: number | null;
  code: string | null;
  /** Id of the response created by the operation. */
  id: string | null;
  /** `status` and text of the response that was read. */
  state: string | null;
  text: string | null;
  /** Whether the client received generated output, in which case the request counts. */
  seen: boolean;
  /** Sent after all faults were removed, so it must not be refused. */
  quiet: boolean;
  /** Description of any other problem. */
  odd: string | null;
}

/** A generation as the engine saw it: the request held its concurrency slot between these times. */
export interface Generation {
  kind: 'generation';
  n: number;
  from: number;
  to: number;
  messages: readonly string[];
}

/** A period during which a process counted alone. */
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

/** Concurrency slots that are still taken in Redis although no request is running. */
export interface Left {
  kind: 'left';
  round: number;
  at: number;
  places: number;
}

export type Entry = Operation | Generation | Away | Fault | Life | Left;

/** The limits of each key. */
export interface Bounds {
  places: number;
  perMinute: number;
}

/** The prompt of a generation, and the output that follows from it. */
export const promptOf = (n: number, tokens: number, gapMs: number): string => `#${n} ${tokens} ${gapMs}`;
export const answerTo = (prompt: string): string => {
  const [n = '', tokens = '0'] = prompt.slice(1).split(' ');
  return `${n}:${Array.from({ length: Number(tokens) }, (_, at) => ` w${at}`).join('')}`;
};
