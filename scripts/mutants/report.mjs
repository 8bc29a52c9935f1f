// Selects the mutants to test and reports the results.

/** Returns `count` mutants in source order, picked by a seeded shuffle: the same seed picks the same mutants. */
export function chosen(all, count, seed) {
  let state = seed >>> 0;
  const next = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return all
    .map((one, at) => ({ one, at, by: next() }))
    .sort((a, b) => a.by - b.by)
    .slice(0, count)
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);
}

/** Prints a table with one row per file, and the survivors below it. */
export function report(results) {
  const files = new Map();
  for (const { source, killer } of results) {
    const counts = files.get(source) ?? { killed: 0, all: 0 };
    counts.all += 1;
    if (killer !== null) counts.killed += 1;
    files.set(source, counts);
  }
  const line = (name, { killed, all }) =>
    `${name.padEnd(52)} ${String(killed).padStart(4)} of ${String(all).padStart(4)}  ${((100 * killed) / all).toFixed(0).padStart(3)} %`;
  console.log();
  for (const [source, counts] of files) console.log(line(source, counts));
  if (results.length > 0)
    console.log(line('all', { killed: results.filter(({ killer }) => killer !== null).length, all: results.length }));
  const survivors = results.filter(({ killer }) => killer === null);
  if (survivors.length > 0) console.log('\nSurvivors, for review:');
  for (const { source, line: at, what, code, tests } of survivors)
    console.log(`  ${source}:${at}  ${what}${tests === 0 ? ' (no test reaches it)' : ''}\n      ${code}`);
}

/**
 * Returns the mutants in `all` that survived in `before`, the results of an earlier run. If lines have moved, mutants
 * are matched by their code.
 */
export function survivorsIn(before, all) {
  const same = (one) => (other) => other.source === one.source && other.what === one.what && other.code === one.code;
  const picked = new Set();
  for (const one of before.filter(({ killer }) => killer === null)) {
    const found = all
      .filter((other) => same(one)(other) && !picked.has(other))
      .sort((a, b) => Math.abs(a.line - one.line) - Math.abs(b.line - one.line));
    if (found[0] !== undefined) picked.add(found[0]);
  }
  return [...picked];
}
