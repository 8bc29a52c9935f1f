// Compares the arguments of calls as JSON values: order of members, spacing and escapes do not matter. Pure.
import { parseJson } from '../template/json.js';
import { Dict, Float, TemplateFault, type Value } from '../template/values.js';

/** Whether both texts are JSON and have the same value. An empty text is an object without members. */
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

/** Numbers with and without a fraction are compared by value: 1 equals 1.0. */
function numberOf(value: Value): number | null {
  if (value instanceof Float) return value.value;
  return typeof value === 'number' ? value : null;
}
