// List validation that stops at the first invalid entry. Only one error is reported anyway, and collecting hundreds of
// thousands of errors would use memory and time out of proportion to the request.
import { z } from 'zod';
import { validatedEntries, FAULTY } from './validate-in-slices.js';

/** `atLeastOne`: whether an empty list counts as missing. */
export function list<T extends z.ZodType>(entry: T, { atLeastOne = false } = {}): z.ZodArray<T> {
  const schema = atLeastOne ? z.array(entry).min(1) : z.array(entry);
  // Replaces zod's own parse function before its first call, because that call would install zod's version again.
  const parse: typeof schema._zod.parse = (payload, context) => {
    const value: unknown = payload.value;
    if (!Array.isArray(value)) {
      payload.issues.push({ code: 'invalid_type', expected: 'array', input: value, inst: schema });
      return payload;
    }
    const entries: unknown[] = [];
    const validated = validatedEntries(entry, value as unknown[]);
    for (const [index, item] of (value as unknown[]).entries()) {
      if (index < validated.length && validated[index] !== FAULTY) {
        entries.push(validated[index]);
        continue;
      }
      const result = entry._zod.run({ value: item, issues: [] }, context);
      if (result instanceof Promise) throw new TypeError('list entries must be validated synchronously');
      if (result.issues.length > 0) {
        for (const issue of result.issues) payload.issues.push({ ...issue, path: [index, ...(issue.path ?? [])] });
        return payload;
      }
      entries.push(result.value);
    }
    return Object.assign(payload, { value: entries });
  };
  schema._zod.parse = parse;
  if (!atLeastOne) schema._zod.run = parse; // without checks, zod uses the same function for run and parse
  return schema;
}
