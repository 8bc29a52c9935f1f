// Converts a JSON pointer into a schema to a path in the client's request, as used in errors. No side effects.
import type { GrammarProblem } from '../../engine/addon-grammar-types.js';
import type { JsonSchema } from '../types.js';

/** `path`: the path of `schema`. The result contains client-supplied names, which may be long, so it is truncated. */
export function pathOf(
  schema: JsonSchema,
  path: string,
  { pointer, keyword }: Pick<GrammarProblem, 'pointer' | 'keyword'>,
): string {
  let at: unknown = schema;
  let whole = path;
  const steps = pointer === '' ? [] : pointer.slice(1).split('/');
  for (const step of [...steps.map(decoded), ...(keyword === '' ? [] : [keyword])]) {
    whole +=
      Array.isArray(at) && /^\d+$/.test(step)
        ? `[${step}]`
        : /^[\w$-]{1,128}$/.test(step)
          ? `.${step}`
          : `[${JSON.stringify(step.slice(0, 128))}]`;
    if (whole.length > 400) return `${whole.slice(0, 400)}…`;
    at =
      typeof at === 'object' && at !== null && Object.hasOwn(at, step)
        ? (at as Record<string, unknown>)[step]
        : undefined;
  }
  return whole;
}

const decoded = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~');
