// What happens to reasoning that another service wrote or whose key was removed, and how a response names what the model
// did not see.
import { inOrder } from '../generation/thoughts.js';
import type { GenerationRequest, LeftOut } from '../generation/types.js';
import type { Caller } from './caller.js';
import { printable, shownPlaces } from './ignored.js';

/** The setting `foreign_thinking`. */
export type ForeignThinking = 'drop' | 'reject';

/** Sets `x-ignored-content` and the log field with all places. */
export function nameLeftOut(
  caller: Pick<Caller, 'setHeader' | 'annotate'>,
  leftOut: readonly LeftOut[] | undefined,
): void {
  if (leftOut === undefined || leftOut.length === 0) return;
  const paths = leftOut.map(({ path }) => path);
  caller.setHeader('x-ignored-content', shownPlaces(paths).join(', '));
  caller.annotate({ ignored_content: allPlaces(paths) });
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
    leftOut.filter(({ reason }) => reason === 'foreign'),
    byProvider,
  );
}
