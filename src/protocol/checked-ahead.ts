// Entries of long lists that are checked before the rest of a large request, a few milliseconds at a time (Route.ahead), so that
// nobody waits for all of them at once. Nothing is told here: whoever checks the request finds the sound entries done, and looks
// at the others again, in order. Event-loop thread only.
import type { z } from 'zod';

/** In place of what an entry becomes that is not sound. */
export const FAULTY = Symbol('faulty');

/** As many faulty entries are looked at; what comes behind them is left. */
export const MAX_FAULTY_ENTRIES = 1_000;

interface Ahead {
  readonly schema: z.ZodType;
  readonly values: readonly unknown[];
}
const byList = new WeakMap<readonly unknown[], Ahead>();

/** A step checks one entry. `from`: what is checked in its place. */
export function* checkAhead(
  schema: z.ZodType,
  list: readonly unknown[],
  from?: (entry: unknown) => unknown,
): Generator<void> {
  const values: unknown[] = [];
  byList.set(list, { schema, values });
  let faulty = 0;
  for (const entry of list) {
    const result = schema.safeParse(from === undefined ? entry : from(entry), { reportInput: false });
    values.push(result.success ? result.data : FAULTY);
    if (!result.success && ++faulty === MAX_FAULTY_ENTRIES) return;
    yield;
  }
}

/** What the first entries of the list became by this schema, or FAULTY; empty if none was checked ahead. */
export function checkedAhead(schema: z.ZodType, list: readonly unknown[]): readonly unknown[] {
  const ahead = byList.get(list);
  return ahead?.schema === schema ? ahead.values : NONE;
}

const NONE: readonly unknown[] = [];
