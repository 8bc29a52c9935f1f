// What a server has acknowledged, however often it was killed since.

export type Resource = Record<string, unknown> & { id: string; status: string };

export interface KnownResponse {
  readonly id: string;
  /** Stands in its input. */
  readonly mark: string;
  readonly previous: KnownResponse | null;
  readonly depth: number;
  readonly background: boolean;
  /** As a client was told that it had ended; null: nobody was. */
  final: Resource | null;
  /** Events of its log that were seen, by their numbers. */
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
  /** As the server last said it. */
  told: Spent = { requests: 0, output: 0 };
  /** All that was ever sent, and the most that it may have come to. */
  readonly sent: Spent = { requests: 0, output: 0 };
  /** What went wrong while it ran. */
  readonly problems: string[] = [];

  counts(): string {
    const { responses, keys } = this;
    const of = (name: string, count: number): string => `${count} ${name}`;
    return [
      of('answers', responses.filter(({ final }) => final !== null).length),
      of('in the background', responses.filter(({ background }) => background).length),
      of('deletions', responses.filter(({ deletion }) => deletion === 'acknowledged').length),
      of('keys', keys.length),
      of('revocations', keys.filter(({ revocation }) => revocation === 'acknowledged').length),
    ].join(', ');
  }
}

export const isTerminal = (status: string): boolean => status !== 'queued' && status !== 'in_progress';
