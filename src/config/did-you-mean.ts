// Suggestions for misspelled names.

/** Returns ` Did you mean ...?` with the closest name by edit distance, or an empty string if no name is close. */
export function didYouMean(name: string, candidates: readonly string[]): string {
  const best = closest(name, candidates, Math.max(2, Math.floor(name.length / 3)));
  return best === null ? '' : ` Did you mean ${best}?`;
}

/** The candidate with the smallest edit distance, or null if that is more than `maxDistance`. */
export function closest(name: string, candidates: readonly string[], maxDistance: number): string | null {
  let best: string | null = null;
  let bestDistance = maxDistance + 1;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(
        Math.min(
          (next[j - 1] as number) + 1,
          (row[j] as number) + 1,
          (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1),
        ),
      );
    }
    row = next;
  }
  return row[b.length] as number;
}
