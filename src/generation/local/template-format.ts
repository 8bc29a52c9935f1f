// Python's '...{}...'.format(...) for templates, which the library lacks: fields by order, number or name, and doubled
// braces. Other field syntax (attributes, conversions, a width) does not occur in templates and is rejected with an
// error. Pure.
import type { Value } from './template-values.js';

/**
 * The parts of a format string: literal text, and the argument that follows it; null at the end. Throws for unsupported
 * syntax.
 */
export interface FormatPiece {
  readonly text: string;
  readonly field: number | string | null;
}

export function formatPieces(text: string): FormatPiece[] {
  const pieces: FormatPiece[] = [];
  let said = '';
  let next = 0;
  const FIELD = /\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+/g;
  for (const [token, field] of text.matchAll(FIELD)) {
    if (token === '{{' || token === '}}') said += token[0] as string;
    else if (field !== undefined) {
      if (!/^(?:\d{0,3}|[A-Za-z_]\w*)$/.test(field))
        throw new Error(`format() does not support the field {${field.slice(0, 40)}}`);
      pieces.push({ text: said, field: field === '' ? next++ : /^\d/.test(field) ? Number(field) : field });
      said = '';
    } else if (token === '{' || token === '}') throw new Error(`format(): single ${token} in the format string`);
    else said += token;
  }
  pieces.push({ text: said, field: null });
  return pieces;
}

/** Returns the argument of a field. Throws if it is missing. */
export function fieldValue(field: number | string, args: readonly Value[]): Value {
  const last = args.at(-1);
  const named = last?.type === 'KeywordArgumentsValue' ? last : undefined;
  const found =
    typeof field === 'string'
      ? (named?.value as ReadonlyMap<string, Value> | undefined)?.get(field)
      : field < args.length - (named === undefined ? 0 : 1)
        ? args[field]
        : undefined;
  if (found === undefined) throw new Error(`format() has no argument for {${field}}`);
  return found;
}
