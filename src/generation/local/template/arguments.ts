// Assigns the arguments of a call to parameters.
import { str } from './print.js';
import type { Run } from './run.js';
import { Float, TemplateFault, isInteger, typeName, type Arguments, type Value } from './values.js';

/**
 * Returns the arguments in the order of `names`, with undefined for each argument that is not given. Throws
 * TemplateFault if there are too many arguments, if an argument is unknown, or if one of the first `required` arguments
 * is missing.
 */
export function bind(
  what: string,
  { positional, named }: Arguments,
  names: readonly string[],
  required = 0,
): (Value | undefined)[] {
  if (positional.length > names.length)
    throw new TemplateFault(`${what}() takes at most ${names.length} arguments (${positional.length} given)`);
  const values: (Value | undefined)[] = names.map((_, index) => positional[index]);
  if (named !== null) {
    for (const [name, value] of named) {
      const index = names.indexOf(name);
      if (index === -1) throw new TemplateFault(`${what}() got an unexpected keyword argument '${name}'`);
      if (values[index] !== undefined) throw new TemplateFault(`${what}() got multiple values for argument '${name}'`);
      values[index] = value;
    }
  }
  for (let index = 0; index < required; index++)
    if (values[index] === undefined) throw new TemplateFault(`${what}() misses its argument '${names[index]}'`);
  return values;
}

/** Returns the positional arguments of a Python function that takes no others. */
export function positional(
  what: string,
  { positional: given, named }: Arguments,
  most: number,
  required = 0,
): readonly Value[] {
  if (named !== null && named.size > 0) throw new TemplateFault(`${what}() takes no keyword arguments`);
  if (given.length > most || given.length < required)
    throw new TemplateFault(
      `${what}() takes ${required === most ? most : `${required} to ${most}`} arguments (${given.length} given)`,
    );
  return given;
}

/** Returns an argument that must be an integer. A bigint is clamped to the range of exact numbers. */
export function count(what: string, value: Value | undefined, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return value > 0n ? Number.MAX_SAFE_INTEGER : Number.MIN_SAFE_INTEGER;
  throw new TemplateFault(`${what}(): '${typeName(value)}' object cannot be interpreted as an integer`);
}

export function isNumber(value: Value | undefined): value is number | bigint | boolean | Float {
  return isInteger(value) || value instanceof Float;
}

/** Returns an argument as text. */
export function shown(run: Run, value: Value | undefined, fallback: string): string {
  return value === undefined ? fallback : str(run, value);
}
