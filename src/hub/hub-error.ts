// What can go wrong between here and a hub of models. Pure.

/** What kind of failure: the same words as in logs and in the operator's API. */
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

/** The message says all there is to say: which repository or file, and what to do. It never has the token in it. */
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

/** Controls of both kinds, marks that turn the direction of writing and the like, ends of lines, halves of characters; but not the two joiners, which words and emoji have. */
const UNSHOWN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;

/** Text of a server must not steer a terminal. */
export const printable = (text: string): string => text.replace(UNSHOWN, ' ').slice(0, 200);

/** Whether it is printable as it is. */
export const isShown = (text: string): boolean => text.search(UNSHOWN) < 0;
