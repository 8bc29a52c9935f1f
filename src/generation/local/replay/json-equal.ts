// Compares the arguments of tool calls as JSON values. The order of members, spacing and escapes do not matter. Pure.
import { parseJson } from '../template/json.js';
import { Dict, Float, TemplateFault, type Value } from '../template/values.js';

/** Whether both strings are valid JSON with equal values. An empty string counts as `{}`. */
export function equalJson(one: string, other: string): boolean {
  if (one === other) return true;
  try {
    return equal(parseJson(one.trim() === '' ? '{}' : one), parseJson(other.trim() === '' ? '{}' : other));
  } catch (error) {
    if (error instanceof TemplateFault) return false;
    throw error;
  }
}

function equal(one: Value, other: Value): boolean {
  if (one === other) return true;
  if (Array.isArray(one))
    return Array.isArray(other) && one.length === other.length && one.every((item, at) => equal(item, other[at]!));
  if (one instanceof Dict) {
    if (!(other instanceof Dict) || one.size !== other.size) return false;
    for (const [key, item] of one.entries()) {
      const there = other.get(key);
      if (there === undefined || !equal(item, there)) return false;
    }
    return true;
  }
  const number = numberOf(one);
  return number !== null && number === numberOf(other);
}

/** Integers and floats are compared by value: 1 equals 1.0. */
function numberOf(value: Value): number | null {
  if (value instanceof Float) return value.value;
  return typeof value === 'number' ? value : null;
}
