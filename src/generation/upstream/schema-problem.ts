// Checks a value against the structural part of a JSON Schema (2020-12): types, members, items, constants, numbers,
// lengths, references and alternatives. Patterns, formats and annotations are ignored, because they could only reject
// more values. The amount of work is limited, because nested alternatives multiply. No side effects.
import type { JsonSchema } from '../types.js';

/** Maximum number of times that a schema is evaluated on a value. */
const MAX_VISITS = 200_000;
const MAX_DEPTH = 256;

/**
 * Returns the first problem with its path, without quoting the value. Returns null if the checked parts have no
 * problem.
 */
export function schemaProblem(schema: JsonSchema, value: unknown): string | null {
  try {
    return new Check(schema).problem(schema, value, '', 0);
  } catch (error) {
    if (error instanceof TooMuch) return 'it takes too long to check';
    throw error;
  }
}

class TooMuch extends Error {}

class Check {
  #visits = 0;

  constructor(private readonly root: JsonSchema) {}

  problem(schema: unknown, value: unknown, at: string, depth: number): string | null {
    if (++this.#visits > MAX_VISITS || depth > MAX_DEPTH) throw new TooMuch();
    if (schema === false) return `${at || 'the whole'} is not allowed`;
    if (typeof schema !== 'object' || schema === null) return null;
    const rules = schema as JsonSchema;
    return (
      this.#reference(rules, value, at, depth) ??
      this.#own(rules, value, at) ??
      (Array.isArray(value)
        ? this.#items(rules, value, at, depth)
        : isObject(value)
          ? this.#members(rules, value, at, depth)
          : null) ??
      this.#alternatives(rules, value, at, depth)
    );
  }

  #reference({ $ref }: JsonSchema, value: unknown, at: string, depth: number): string | null {
    if (typeof $ref !== 'string' || !$ref.startsWith('#')) return null;
    let target: unknown = this.root;
    for (const part of $ref.slice(1).split('/').slice(1)) {
      const name = decode(part).replace(/~1/g, '/').replace(/~0/g, '~');
      target =
        typeof target === 'object' && target !== null && Object.hasOwn(target, name)
          ? (target as JsonSchema)[name]
          : undefined;
    }
    return target === undefined ? null : this.problem(target, value, at, depth + 1);
  }

  #own(rules: JsonSchema, value: unknown, at: string): string | null {
    const where = at || 'the whole';
    const types = rules['type'] === undefined ? [] : [rules['type']].flat();
    if (types.length > 0 && !types.some((type) => isOf(type, value)))
      return `${where} is not of type ${types.join(' or ')}`;
    if ('const' in rules && !same(rules['const'], value)) return `${where} does not equal the constant`;
    if (Array.isArray(rules['enum']) && !rules['enum'].some((one) => same(one, value)))
      return `${where} is not one of the allowed values`;
    const beyond = (name: string, of: number, isBeyond: (limit: number) => boolean): boolean =>
      typeof rules[name] === 'number' && !Number.isNaN(of) && isBeyond(rules[name]);
    if (typeof value === 'number') {
      if (
        beyond('minimum', value, (limit) => value < limit) ||
        beyond('exclusiveMinimum', value, (limit) => value <= limit)
      )
        return `${where} is too small`;
      if (
        beyond('maximum', value, (limit) => value > limit) ||
        beyond('exclusiveMaximum', value, (limit) => value >= limit)
      )
        return `${where} is too large`;
    }
    const [least, most, length] =
      typeof value === 'string'
        ? (['minLength', 'maxLength', [...value].length] as const)
        : Array.isArray(value)
          ? (['minItems', 'maxItems', value.length] as const)
          : isObject(value)
            ? (['minProperties', 'maxProperties', Object.keys(value).length] as const)
            : (['', '', NaN] as const);
    if (beyond(least, length, (limit) => length < limit)) return `${where} is too short`;
    return beyond(most, length, (limit) => length > limit) ? `${where} is too long` : null;
  }

  #items(rules: JsonSchema, value: readonly unknown[], at: string, depth: number): string | null {
    const first = Array.isArray(rules['prefixItems']) ? rules['prefixItems'] : [];
    for (const [index, item] of value.entries()) {
      const schema: unknown = index < first.length ? first[index] : rules['items'];
      const problem = schema === undefined ? null : this.problem(schema, item, `${at}[${index}]`, depth + 1);
      if (problem !== null) return problem;
    }
    return null;
  }

  #members(rules: JsonSchema, value: Readonly<Record<string, unknown>>, at: string, depth: number): string | null {
    const known = isObject(rules['properties']) ? rules['properties'] : {};
    for (const name of Array.isArray(rules['required']) ? rules['required'] : []) {
      if (typeof name === 'string' && !Object.hasOwn(value, name))
        return `${at === '' ? '' : `${at}.`}${name} is missing`;
    }
    for (const [name, member] of Object.entries(value)) {
      const isKnown = Object.hasOwn(known, name);
      if (!isKnown && rules['patternProperties'] !== undefined) continue;
      const schema: unknown = isKnown ? known[name] : rules['additionalProperties'];
      // Unknown member names come from the response, so they are not quoted.
      const where = isKnown ? (at === '' ? name : `${at}.${name}`) : `${at === '' ? '' : `${at}.`}an additional member`;
      const problem = schema === undefined ? null : this.problem(schema, member, where, depth + 1);
      if (problem !== null) return problem;
    }
    return null;
  }

  #alternatives(rules: JsonSchema, value: unknown, at: string, depth: number): string | null {
    const passes = (schema: unknown): boolean => this.problem(schema, value, at, depth + 1) === null;
    const listOf = (name: string): readonly unknown[] => (Array.isArray(rules[name]) ? rules[name] : []);
    for (const schema of listOf('allOf')) {
      const problem = this.problem(schema, value, at, depth + 1);
      if (problem !== null) return problem;
    }
    const where = at || 'the whole';
    if (listOf('anyOf').length > 0 && !listOf('anyOf').some(passes)) return `${where} matches none of the alternatives`;
    // More than one alternative may match the value, because the alternatives may differ only in a keyword that is
    // ignored here.
    return listOf('oneOf').length > 0 && !listOf('oneOf').some(passes)
      ? `${where} matches none of the alternatives`
      : null;
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isOf(type: unknown, value: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    case 'integer':
      return typeof value === 'number' && Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function same(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (Array.isArray(one))
    return Array.isArray(other) && one.length === other.length && one.every((item, at) => same(item, other[at]));
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]))
  );
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
