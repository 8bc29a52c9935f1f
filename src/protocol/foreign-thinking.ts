// Handles reasoning that another service wrote or whose key was removed, and lists the content that was not passed to
// the model in the response.
import { inOrder } from '../generation/thoughts.js';
import type { GenerationRequest, LeftOut } from '../generation/types.js';
import type { Caller } from './caller.js';
import { headerPaths, logged, nameIgnored, printable } from './ignored.js';

/** The setting `foreign_thinking`. */
export type ForeignThinking = 'drop' | 'reject';

const HEADER = 'x-ignored-content';

/** Sets the `x-ignored-content` header (truncated) and the log field `ignored_content` (all paths). */
export function nameLeftOut(
  caller: Pick<Caller, 'setHeader' | 'annotate'>,
  leftOut: readonly LeftOut[] | undefined,
): void {
  if (leftOut === undefined || leftOut.length === 0) return;
  const paths = leftOut.map(({ path }) => path);
  caller.setHeader(HEADER, headerPaths(paths));
  caller.annotate({ ignored_content: allPlaces(paths) });
}

/** Replaces the list that nameLeftOut() has set with the final list. */
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

/** Adds the parameters that were not sent to the upstream to the list of ignored fields. */
export function nameUnsent(
  caller: Pick<Caller, 'setHeader' | 'annotate'>,
  { ignored = [] }: Pick<GenerationRequest, 'ignored'>,
  unsent: readonly string[] = [],
): void {
  if (unsent.length === 0) return;
  nameIgnored({ parameters: [...ignored, ...unsent] }, caller);
}

/** Formats all paths for the log. */
export const allPlaces = (paths: readonly string[]): string => logged(paths, printable);

/** Returns the final list of omitted content. Only the provider knows which reasoning blocks its model can read. */
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
