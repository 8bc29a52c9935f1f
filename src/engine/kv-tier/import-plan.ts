// Decides which stored pages are worth importing for a prompt. No side effects.
import type { PromptSpan } from '../addon-types.js';
import { PAGE_TOKENS } from './page-content.js';
import type { PagePart } from './page-record.js';

/** Flags of the `opened` event: the parts of a page that are in the pool. */
const HAS_WINDOW = 2;
export const HAS_SNAPSHOT = 4;

export interface ImportQuestion {
  /** Flags of each leading page that is in the pool. */
  readonly held: ArrayLike<number>;
  /** The stored parts of each leading page. */
  readonly stored: readonly (readonly PagePart[])[];
  /** Length of the model's largest sliding window; 0: none. */
  readonly windowTokens: number;
  /** Whether the model can continue only from a saved recurrent state. */
  readonly needsSnapshot: boolean;
  readonly spans: readonly PromptSpan[];
}

export interface ImportPlan {
  /** Number of leading pages that the request can use after the import. */
  readonly pages: number;
  /** Number of leading pages already in memory, which the request can use without an import. */
  readonly pagesBefore: number;
  /** Parts to import by page, in ascending order. Empty if the pool already contains as many usable pages. */
  readonly wanted: ReadonlyMap<number, readonly PagePart[]>;
}

export function planImport(question: ImportQuestion): ImportPlan {
  const { held, stored, windowTokens, needsSnapshot } = question;
  const heldHas = (page: number, flag: number): boolean => page < held.length && (held[page]! & flag) !== 0;
  const canHave = (page: number, flag: number, part: PagePart): boolean =>
    heldHas(page, flag) || stored[page]?.includes(part) === true;
  const before = longest(question, held.length, heldHas);
  const pages = longest(question, Math.max(held.length, stored.length), (page, flag) =>
    canHave(page, flag, flag === HAS_WINDOW ? 'window' : 'snapshot'),
  );
  const wanted = new Map<number, PagePart[]>();
  if (pages <= before) return { pages: before, pagesBefore: before, wanted };
  const firstSeen = windowTokens > 0 ? firstWindowPage(pages, windowTokens) : pages;
  for (let page = 0; page < pages; page++) {
    const parts: PagePart[] = [];
    if (page >= held.length) parts.push('full');
    if (page >= firstSeen && !heldHas(page, HAS_WINDOW)) parts.push('window');
    if (needsSnapshot && page === pages - 1 && !heldHas(page, HAS_SNAPSHOT)) parts.push('snapshot');
    if (parts.length > 0) wanted.set(page, parts);
  }
  return { pages, pagesBefore: before, wanted };
}

/** The first page to which the token that follows `pages` full pages attends in layers with a sliding window. */
const firstWindowPage = (pages: number, windowTokens: number): number =>
  Math.floor(Math.max(0, pages * PAGE_TOKENS - windowTokens + 1) / PAGE_TOKENS);

/** The largest number of leading pages, up to `most`, after which the engine can continue the prompt. */
function longest(
  { windowTokens, needsSnapshot, spans }: ImportQuestion,
  most: number,
  has: (page: number, flag: number) => boolean,
): number {
  for (let pages = most; pages > 0; pages--) {
    if (needsSnapshot && !has(pages - 1, HAS_SNAPSHOT)) continue;
    const end = pages * PAGE_TOKENS;
    if (spans.some(({ first, rows, bidirectional }) => bidirectional && first < end && end < first + rows)) continue;
    let complete = true;
    if (windowTokens > 0)
      for (let page = firstWindowPage(pages, windowTokens); page < pages && complete; page++)
        complete = has(page, HAS_WINDOW);
    if (complete) return pages;
  }
  return 0;
}
