// Finds the fields of a request that its schema does not read, at any depth. Pure.
import type { z } from 'zod';

type Schema = z.core.$ZodType;

/** Whether a value changes nothing in the vendor's service either, so that it need not be listed. */
type IsNeutral = (value: unknown) => boolean;
export type NeutralFields = Readonly<Record<string, IsNeutral>>;

/** Schemas of objects whose unread fields are not listed, because the whole object is ignored or rejected. */
const opaqueSchemas = new WeakSet<Schema>();

export function opaque<T extends Schema>(schema: T): T {
  opaqueSchemas.add(schema);
  return schema;
}

/** Maximum number of objects and lists to examine, which limits the time for long conversations. */
const MAX_VALUES = 50_000;
const MAX_NAMES = 1_000;

/**
 * Returns the paths of the unread fields, such as `tools.input_examples`, without indexes and duplicates. `neutral`: by
 * field name (the last part of the path), whether a value changes nothing. Without an entry in `neutral`, a nested
 * field is not listed if it is null, false or empty.
 */
export function unreadFields(schema: Schema, body: unknown, neutral: NeutralFields = {}): string[] {
  const walk = new Walk(neutral);
  walk.visit(schema, body, '');
  return [...walk.names];
}

class Walk {
  readonly names = new Set<string>();
  #left = MAX_VALUES;

  constructor(private readonly neutral: NeutralFields) {}

  visit(schema: Schema, value: unknown, path: string): void {
    if (typeof value !== 'object' || value === null || --this.#left < 0) return;
    const meant = branchFor(schema, value);
    if (meant === null || opaqueSchemas.has(meant)) return;
    const { def } = (meant as z.core.$ZodTypes)._zod;
    if (def.type === 'array' && Array.isArray(value))
      for (const entry of value as unknown[]) this.visit(def.element, entry, path);
    else if (def.type === 'object' && def.catchall === undefined) this.#fields(def.shape, value, path);
  }

  #fields(shape: Readonly<Record<string, Schema>>, value: object, path: string): void {
    for (const [name, member] of Object.entries(value)) {
      const at = path === '' ? name : `${path}.${name}`;
      if (Object.hasOwn(shape, name)) this.visit(shape[name] as Schema, member, at);
      else if (this.names.size < MAX_NAMES && !this.#isNeutral(name, member, path === '')) this.names.add(at);
    }
  }

  #isNeutral(name: string, value: unknown, isParameter: boolean): boolean {
    if (Object.hasOwn(this.neutral, name)) return this.neutral[name]?.(value) === true;
    return !isParameter && saysNothing(value);
  }
}

/** Whether a value is null, undefined or false, or an object or list that contains only such values. */
export function saysNothing(value: unknown): boolean {
  if (value === null || value === undefined || value === false) return true;
  return typeof value === 'object' && Object.values(value).every(saysNothing);
}

/** Returns the schema without wrappers and, for a union, the branch that matches the value. Null if none matches. */
function branchFor(schema: Schema, value: object): Schema | null {
  let inner = schema;
  for (;;) {
    const { def } = (inner as z.core.$ZodTypes)._zod;
    if (def.type === 'optional' || def.type === 'nullable' || def.type === 'default') inner = def.innerType;
    else if (def.type === 'union') {
      const option = optionFor(def.options, value);
      if (option === null) return null;
      inner = option;
    } else return inner;
  }
}

function optionFor(options: readonly Schema[], value: object): Schema | null {
  const kind = Array.isArray(value) ? 'array' : 'object';
  let other: Schema | null = null;
  for (const option of options) {
    const { def, propValues } = (option as z.core.$ZodTypes)._zod;
    if (def.type !== 'union' && def.type !== kind) continue;
    if (kind === 'array') return option;
    const wanted = Object.entries(propValues ?? {});
    if (wanted.length === 0) other ??= option;
    else if (wanted.every(([name, values]) => values.has((value as Record<string, z.core.util.Primitive>)[name])))
      return option;
  }
  return other;
}
