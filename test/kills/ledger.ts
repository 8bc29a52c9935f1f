// Records what a server has acknowledged, across any number of kills.

export type Resource = Record<string, unknown> & { id: string; status: string };

export interface KnownResponse {
  readonly id: string;
  /** A unique text in the response's input. */
  readonly mark: string;
  readonly previous: KnownResponse | null;
  readonly depth: number;
  readonly background: boolean;
  /** The final state that a client received; null if no client has. */
  final: Resource | null;
  /** Log events that a client received, by sequence number. */
  readonly seen: Map<number, string>;
  deletion: 'none' | 'asked' | 'acknowledged';
}

export interface KnownKey {
  readonly id: string;
  readonly secret: string;
  revocation: KnownResponse['deletion'];
}

export interface Spent {
  requests: number;
  output: number;
}

export class Ledger {
  readonly responses: KnownResponse[] = [];
  readonly keys: KnownKey[] = [];
  /** The usage that the server last reported. */
  told: Spent = { requests: 0, output: 0 };
  /** Everything ever sent: the number of requests, and an upper bound on their output tokens. */
  readonly sent: Spent = { requests: 0, output: 0 };
  /** Problems found while the server was running. */
  readonly problems: string[] = [];

  counts(): string {
    const { responses, keys } = this;
    const of = (name: string, count: number): string => `${count} ${name}`;
    return [
      of('answers', responses.filter(({ final }) => final !== null).length),
      of('background responses', responses.filter(({ background }) => background).length),
      of('deletions', responses.filter(({ deletion }) => deletion === 'acknowledged').length),
      of('keys', keys.length),
      of('revocations', keys.filter(({ revocation }) => revocation === 'acknowledged').length),
    ].join(', ');
  }
}

export const isTerminal = (status: string): boolean => status !== 'queued' && status !== 'in_progress';
