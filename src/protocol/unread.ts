// Finds request fields, at any depth, that the schema does not read. No side effects.
import type { z } from 'zod';

type Schema = z.core.$ZodType;

/** Whether a value has no effect in the vendor's own service either, so that it need not be listed. */
type IsNeutral = (value: unknown) => boolean;
export type NeutralFields = Readonly<Record<string, IsNeutral>>;

/** Lists the fields of an object that have no effect. `path`: the field's path relative to the object. */
export type Unshown = (value: object) => Iterable<{ name: string; path: string; value: unknown }>;

const NOTHING: Unshown = () => [];

/**
 * Schemas that do not list the members of their objects, each with a function that lists the members without effect.
 */
const opaqueSchemas = new WeakMap<Schema, Unshown>();

/**
 * Marks the schema of an object whose members it does not describe. `unshown`: a function that lists the members
 * without effect. By default, no members are listed, because the whole object is ignored or rejected.
 */
export function opaque<T extends Schema>(schema: T, unshown = NOTHING): T {
  opaqueSchemas.set(schema, unshown);
  return schema;
}

/** Lists all members of an object that are not in `read`. */
export function unreadMembers(read: readonly string[]): Unshown {
  return (value) =>
    Object.entries(value)
      .filter(([name]) => !read.includes(name))
      .map(([name, member]) => ({ name, path: name, value: member as unknown }));
}

/**
 * Maximum number of objects and lists to examine. Limits the time that the search for unread fields takes in a long
 * conversation.
 */
const MAX_VALUES = 50_000;
const MAX_NAMES = 1_000;

/**
 * Returns the paths of the unread fields, such as `tools.input_examples`, without indexes and duplicates. `neutral`: by
 * field name (the last part of the path), whether a value has no effect. Without an entry in `neutral`, a nested field
 * is not listed if it is null, false or empty.
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
    if (meant === null) return;
    const unshown = opaqueSchemas.get(meant);
    if (unshown !== undefined) {
      for (const { name, path: inner, value: member } of unshown(value)) {
        if (--this.#left < 0) return;
        this.#list(name, member, path === '' ? inner : `${path}.${inner}`, false);
      }
      return;
    }
    const { def } = (meant as z.core.$ZodTypes)._zod;
    if (def.type === 'array' && Array.isArray(value))
      for (const entry of value as unknown[]) this.visit(def.element, entry, path);
    else if (def.type === 'object' && def.catchall === undefined) this.#fields(def.shape, value, path);
  }

  #fields(shape: Readonly<Record<string, Schema>>, value: object, path: string): void {
    for (const [name, member] of Object.entries(value)) {
      const at = path === '' ? name : `${path}.${name}`;
      if (Object.hasOwn(shape, name)) this.visit(shape[name] as Schema, member, at);
      else this.#list(name, member, at, path === '');
    }
  }

  #list(name: string, value: unknown, at: string, isParameter: boolean): void {
    if (this.names.size < MAX_NAMES && !this.#isNeutral(name, value, isParameter)) this.names.add(at);
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

/**
 * Returns the schema without wrappers and, for a union, the branch that matches the value. Returns null if no
 * branch matches.
 */
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
