// Iterates over the items of a value, and determines its length.
import { lengthOf } from './code-points.js';
import type { Run } from './run.js';
import {
  Bytes,
  Dict,
  DictView,
  Lazy,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  textOf,
  typeName,
  type Value,
} from './values.js';

/** Returns the items, or null if the value is not iterable. Charges steps for items that have to be created. */
export function itemsOrNull(run: Run, value: Value): Iterable<Value> | null {
  if (Array.isArray(value)) return value;
  if (value instanceof Tuple) return value.items;
  const text = textOf(value);
  if (text !== null) {
    run.spend(1 + text.length);
    return text; // iterates over code points
  }
  if (value instanceof Dict) return charged(run, value.keys());
  if (value instanceof DictView) return charged(run, value);
  if (value instanceof Range) return numbers(run, value);
  if (value instanceof Undefined) return [];
  if (value instanceof Bytes) return [...value.bytes];
  if (value instanceof Lazy) return { [Symbol.iterator]: () => value.iterator };
  return null;
}

/** Throws TemplateFault if the value is not iterable. */
export function items(run: Run, value: Value): Iterable<Value> {
  return itemsOrNull(run, value) ?? notIterable(value);
}

/** Returns the items as an array. For a list or tuple, this is the value's own array and not a copy. */
export function listed(run: Run, value: Value): readonly Value[] {
  const found = items(run, value);
  if (Array.isArray(found)) return found;
  const list: Value[] = [];
  for (const item of found) {
    run.spend(1);
    list.push(item);
  }
  return list;
}

function notIterable(value: Value): never {
  throw new TemplateFault(`'${typeName(value)}' object is not iterable`);
}

function* charged(run: Run, values: Iterable<Value>): Generator<Value> {
  for (const value of values) {
    run.spend(ITEM_STEPS);
    yield value;
  }
}

function* numbers(run: Run, range: Range): Generator<Value> {
  for (let index = 0; index < range.length; index++) {
    run.spend(1);
    yield range.at(index);
  }
}

/** Steps charged for an item that is created when it is read. */
const ITEM_STEPS = 4;

/** Returns len(value), or null if the value has no length. */
export function sizeOf(run: Run, value: Value): number | null {
  if (Array.isArray(value)) return value.length;
  const text = textOf(value);
  if (text !== null) {
    run.spend(1 + (text.length >> 8)); // counting is much faster than reading
    return lengthOf(text);
  }
  if (value instanceof Dict) return value.size;
  if (value instanceof Tuple) return value.items.length;
  if (value instanceof DictView) return value.dict.size;
  if (value instanceof Range) return value.length;
  if (value instanceof Undefined) return 0;
  return null;
}

export function length(run: Run, value: Value): number {
  const size = sizeOf(run, value);
  if (size === null) throw new TemplateFault(`object of type '${typeName(value)}' has no len()`);
  return size;
}
