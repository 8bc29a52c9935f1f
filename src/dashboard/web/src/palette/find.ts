// Finds and ranks the command palette's entries. No side effects.

export interface PaletteItem {
  /** Unique within the palette. */
  id: string;
  /** Heading of the entry's group. */
  group: string;
  label: string;
  /** Shown after the label and included in the search. */
  hint?: string;
  /** Additional search words, which are not shown. */
  words?: string;
  /** Whether to list the entry before the user types anything. */
  isFirst?: boolean;
  run(): void;
}

/** Maximum number of entries shown per group. */
const MAX_PER_GROUP = 8;

/**
 * Returns the entries that contain every typed word, best match first within each group. Groups keep their order,
 * except that the group with the best match comes first. If nothing has been typed, returns the entries with `isFirst`.
 */
export function findItems(items: readonly PaletteItem[], text: string): PaletteItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.filter(({ isFirst }) => isFirst === true);
  const found = items.flatMap((item, at) => {
    const score = scoreOf(item, words);
    return score === null ? [] : [{ item, score, at }];
  });
  const groups = new Map<string, typeof found>();
  for (const one of found) groups.set(one.item.group, [...(groups.get(one.item.group) ?? []), one]);
  const ranked = [...groups.values()].map((group) =>
    group.sort((a, b) => b.score - a.score || a.at - b.at).slice(0, MAX_PER_GROUP),
  );
  const best = Math.max(...ranked.map(([first]) => first?.score ?? 0));
  const leading = ranked.find(([first]) => first?.score === best);
  return [...(leading === undefined ? [] : [leading]), ...ranked.filter((group) => group !== leading)].flatMap(
    (group) => group.map(({ item }) => item),
  );
}

/** Null if a word is missing. */
function scoreOf({ label, hint = '', words = '' }: PaletteItem, typed: readonly string[]): number | null {
  const [name, rest] = [label.toLowerCase(), `${hint} ${words}`.toLowerCase()];
  let score = 0;
  for (const word of typed) {
    if (name.startsWith(word)) score += 8;
    else if (new RegExp(`[^a-z0-9]${escaped(word)}`).test(` ${name}`)) score += 5;
    else if (name.includes(word)) score += 3;
    else if (rest.includes(word)) score += 1;
    else return null;
  }
  return score;
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Whether the text could be the ID of a request or response: a prefix, a separator and at least eight characters. */
export const isRequestId = (text: string): boolean => /^[a-z]{2,12}[-_][A-Za-z0-9_-]{8,128}$/.test(text.trim());
