// Comparisons with Python's semantics.
import { compareTexts } from './code-points.js';
import { items, itemsOrNull } from './iterate.js';
import { searchSteps } from './limits.js';
import type { Run } from './run.js';
import {
  Bytes,
  Dict,
  DictView,
  Float,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  isInteger,
  textOf,
  typeName,
  type Value,
} from './values.js';

/** The value of a number or boolean, for comparisons; null for other types. */
function numeric(value: Value): number | bigint | null {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return Number(value);
  return value instanceof Float ? value.value : null;
}

export function equal(run: Run, left: Value, right: Value): boolean {
  run.spend(1);
  if (left === right) return !(left instanceof Float && Number.isNaN(left.value));
  const [a, b] = [numeric(left), numeric(right)];
  // JavaScript compares a number with a bigint by value.
  // biome-ignore lint/suspicious/noDoubleEquals: see above
  if (a !== null || b !== null) return a !== null && b !== null && a == b;
  const [before, after] = [textOf(left), textOf(right)];
  if (before !== null || after !== null) {
    if (before?.length !== after?.length) return false;
    run.spendText(before!.length);
    return before === after;
  }
  if (left instanceof Undefined) return right instanceof Undefined;
  return run.nested(() => equalObjects(run, left, right));
}

function equalObjects(run: Run, left: Value, right: Value): boolean {
  if (Array.isArray(left)) return Array.isArray(right) && equalLists(run, left, right);
  if (left instanceof Tuple) return right instanceof Tuple && equalLists(run, left.items, right.items);
  if (left instanceof Dict) {
    if (!(right instanceof Dict) || left.size !== right.size) return false;
    for (const [key, value] of left.entries()) {
      const other = right.get(key);
      if (other === undefined || !equal(run, value, other)) return false;
    }
    return true;
  }
  if (left instanceof Range && right instanceof Range)
    return (
      left.length === right.length && (left.length === 0 || (left.start === right.start && left.at(1) === right.at(1)))
    );
  if (left instanceof DictView && right instanceof DictView) {
    const others = [...items(run, right)];
    const own = [...items(run, left)];
    return own.length === others.length && own.every((value) => others.some((other) => equal(run, value, other)));
  }
  if (left instanceof Bytes && right instanceof Bytes) return Buffer.from(left.bytes).equals(right.bytes);
  return false;
}

function equalLists(run: Run, left: readonly Value[], right: readonly Value[]): boolean {
  return left.length === right.length && left.every((item, index) => equal(run, item, right[index] as Value));
}

/** Returns a negative number, zero, a positive number, or NaN. Throws TemplateFault if the values cannot be ordered. */
export function order(run: Run, left: Value, right: Value, operator = '<'): number {
  run.spend(1);
  const [a, b] = [numeric(left), numeric(right)];
  if (a !== null && b !== null) return a < b ? -1 : a > b ? 1 : Number.isNaN(a) || Number.isNaN(b) ? NaN : 0;
  const [before, after] = [textOf(left), textOf(right)];
  if (before !== null && after !== null) {
    run.spendText(Math.min(before.length, after.length));
    return compareTexts(before, after);
  }
  if (Array.isArray(left) && Array.isArray(right)) return run.nested(() => orderLists(run, left, right, operator));
  if (left instanceof Tuple && right instanceof Tuple)
    return run.nested(() => orderLists(run, left.items, right.items, operator));
  for (const value of [left, right]) if (value instanceof Undefined) throw value.fault();
  throw new TemplateFault(
    `'${operator}' not supported between instances of '${typeName(left)}' and '${typeName(right)}'`,
  );
}

function orderLists(run: Run, left: readonly Value[], right: readonly Value[], operator: string): number {
  const common = Math.min(left.length, right.length);
  for (let index = 0; index < common; index++) {
    const [a, b] = [left[index] as Value, right[index] as Value];
    if (!equal(run, a, b)) return order(run, a, b, operator);
  }
  return left.length - right.length;
}

/** Python's `item in container`. */
export function contains(run: Run, container: Value, item: Value): boolean {
  const text = textOf(container);
  if (text !== null) {
    const sought = textOf(item);
    if (sought === null)
      throw new TemplateFault(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    run.spend(searchSteps(text.length, sought.length));
    return text.includes(sought);
  }
  if (container instanceof Dict) return hasKey(run, container, item);
  if (container instanceof DictView && container.kind === 'keys') return hasKey(run, container.dict, item);
  if (container instanceof Range && isInteger(item)) return container.has(Number(item));
  const all = itemsOrNull(run, container);
  if (all === null) throw new TemplateFault(`argument of type '${typeName(container)}' is not iterable`);
  for (const one of all) if (equal(run, one, item)) return true;
  return false;
}

function hasKey(run: Run, dict: Dict, key: Value): boolean {
  if (typeof key === 'string') run.spendText(key.length);
  return dict.has(key);
}
