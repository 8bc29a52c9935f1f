// What happens to reasoning that another service wrote or whose key was removed, and how a response names what the model
// did not see.
import { inOrder } from '../generation/thoughts.js';
import type { GenerationRequest, LeftOut } from '../generation/types.js';
import type { Caller } from './caller.js';
import { nameIgnored, printable, shownPlaces } from './ignored.js';

/** The setting `foreign_thinking`. */
export type ForeignThinking = 'drop' | 'reject';

const HEADER = 'x-ignored-content';

/** Sets `x-ignored-content` and the log field with all places. */
export function nameLeftOut(
  caller: Pick<Caller, 'setHeader' | 'annotate'>,
  leftOut: readonly LeftOut[] | undefined,
): void {
  if (leftOut === undefined || leftOut.length === 0) return;
  const paths = leftOut.map(({ path }) => path);
  caller.setHeader(HEADER, shownPlaces(paths).join(', '));
  caller.annotate({ ignored_content: allPlaces(paths) });
}

/** Replaces what nameLeftOut() has named by what was left out in the end. */
export function renameLeftOut(
  caller: Pick<Caller, 'setHeader' | 'removeHeader' | 'annotate'>,
  before: readonly LeftOut[] | undefined,
  final: readonly LeftOut[],
): void {
  nameLeftOut(caller, final);
  if (final.length > 0 || before === undefined) return;
  caller.removeHeader?.(HEADER);
  caller.annotate({ ignored_content: null });
}

/** Names parameters that the upstream was not sent, next to the fields that are ignored anyway. */
export function nameUnsent(
  caller: Pick<Caller, 'setHeader' | 'annotate'>,
  { ignored = [] }: Pick<GenerationRequest, 'ignored'>,
  unsent: readonly string[] = [],
): void {
  if (unsent.length === 0) return;
  nameIgnored({ parameters: [...ignored, ...unsent] }, caller);
}

/** All places, for the log. */
export const allPlaces = (paths: readonly string[]): string => paths.map(printable).join(', ');

/** What was left out in the end: the provider knows better than the parser which blocks its model could read. */
export function finallyLeftOut(
  { leftOut = [] }: Pick<GenerationRequest, 'leftOut'>,
  byProvider: readonly LeftOut[] | undefined,
): readonly LeftOut[] {
  if (byProvider === undefined) return leftOut;
  return inOrder(
    leftOut.filter(({ reason }) => reason === 'foreign' || reason === 'unread'),
    byProvider,
  );
}
