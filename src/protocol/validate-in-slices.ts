// Validates the entries of long lists in slices of a few milliseconds, before the rest of a large request
// (Route.validateInSlices), so that other requests are not delayed. Errors are not reported here: the full validation
// later reuses the results for valid entries and validates the invalid ones again, in order. Event-loop thread only.
import type { z } from 'zod';

/** Placeholder for the parsed value of an invalid entry. */
export const FAULTY = Symbol('faulty');

/** Validation in slices stops after this many invalid entries. */
export const MAX_FAULTY_ENTRIES = 1_000;

interface ValidatedList {
  readonly schema: z.ZodType;
  readonly values: readonly unknown[];
}
const byList = new WeakMap<readonly unknown[], ValidatedList>();

/** Validates one entry per step. `from` maps an entry to the value that is validated in its place. */
export function* validateInSlices(
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

/**
 * Returns the parsed values of the list's first entries under this schema, with FAULTY for invalid ones. Empty if the
 * list was not validated in advance.
 */
export function validatedEntries(schema: z.ZodType, list: readonly unknown[]): readonly unknown[] {
  const validated = byList.get(list);
  return validated?.schema === schema ? validated.values : NONE;
}

const NONE: readonly unknown[] = [];
