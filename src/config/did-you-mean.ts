// Suggestions for misspelled names.

/**
 * Returns ` Did you mean ...?` with the closest name, or an empty string if no name is close. A name is close if at
 * most one edit per three characters is needed; one edit is always allowed.
 */
export function didYouMean(name: string, candidates: readonly string[]): string {
  const best = closest(name, candidates, Math.max(1, Math.floor(bare(name).length / 3)));
  return best === null ? '' : ` Did you mean ${best}?`;
}

/** The candidate with the smallest edit distance, or null if that is more than `maxDistance`. */
export function closest(name: string, candidates: readonly string[], maxDistance: number): string | null {
  let best: string | null = null;
  let bestDistance = maxDistance + 1;
  for (const candidate of candidates) {
    const distance = editDistance(bare(name), bare(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Leading dashes are ignored. Otherwise, they would make `--foo` close to `--log`. */
const bare = (name: string): string => name.replace(/^-+/, '');

/** Number of insertions, deletions, replacements and swaps of adjacent characters. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min((last[j] as number) + 1, (row[j - 1] as number) + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (beforeLast[j - 2] as number) + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] as number;
}
