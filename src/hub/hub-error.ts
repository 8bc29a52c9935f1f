// Errors that occur when downloading from a model hub. No side effects.

/** The failure type. Logs and the operator API use the same names. */
export type HubFailure =
  | 'bad_name'
  | 'not_found'
  | 'not_allowed'
  | 'no_such_weights'
  | 'too_large'
  | 'no_space'
  | 'unreachable'
  | 'bad_answer'
  | 'wrong_hash'
  | 'too_many_requests'
  | 'offline'
  | 'cache'
  | 'cancelled';

/** The message names the repository or file and says what to do. It never contains the token. */
export class HubError extends Error {
  constructor(
    readonly failure: HubFailure,
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'HubError';
  }
}

/**
 * Control and format characters, bidirectional marks, line separators and lone surrogates, except for the two joiners,
 * which words and emoji use.
 */
const UNSHOWN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;

/** Removes characters that could control a terminal from text sent by a server. */
export const printable = (text: string): string => text.replace(UNSHOWN, ' ').slice(0, 200);

/** Whether printable() would leave the text unchanged. */
export const isShown = (text: string): boolean => text.search(UNSHOWN) < 0;
