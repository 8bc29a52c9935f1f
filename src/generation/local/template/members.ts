// Attributes, items and slices of values, as Jinja2's sandbox defines them. `x.name` prefers an attribute, and
// `x['name']` prefers an item. Names that start with an underscore are inaccessible. Methods that modify a list or dict
// cannot be called, except pop() and clear() of a list, which Jinja2's sandbox also allows.
import { characterAt, isPlain } from './code-points.js';
import {
  BYTES_METHODS,
  DICT_METHODS,
  LIST_METHODS,
  NUMBER_METHODS,
  TUPLE_METHODS,
  UNSAFE_DICT,
  UNSAFE_LIST,
} from './collection-methods.js';
import { textSteps } from './limits.js';
import { repr } from './print.js';
import type { Method, Run } from './run.js';
import { MARKUP_METHODS, TEXT_METHODS } from './text-methods.js';
import {
  Bytes,
  Callable,
  Dict,
  Float,
  Markup,
  Namespace,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  isInteger,
  textOf,
  typeName,
  type Value,
} from './values.js';

/** The methods of a value, by name. */
function methodsOf(value: Value): ReadonlyMap<string, Method> | null {
  if (typeof value === 'string') return TEXT_METHODS;
  if (value instanceof Markup) return MARKUP_METHODS;
  if (value instanceof Dict) return DICT_METHODS;
  if (Array.isArray(value)) return LIST_METHODS;
  if (value instanceof Tuple) return TUPLE_METHODS;
  if (value instanceof Bytes) return BYTES_METHODS;
  return isInteger(value) || value instanceof Float ? NUMBER_METHODS : null;
}

/** Returns the bound method with that name, or undefined. */
export function methodOf(value: Value, name: string): Method | undefined {
  return methodsOf(value)?.get(name);
}

/** Like Python's getattr(), but within the sandbox. Returns undefined if there is no such attribute. */
function attributeOf(run: Run, value: Value, name: string): Value | undefined {
  const unsafe = value instanceof Dict ? UNSAFE_DICT : Array.isArray(value) ? UNSAFE_LIST : null;
  if (unsafe?.has(name) || (name.startsWith('__') && DUNDERS.has(name)))
    return new Undefined(() => `access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);
  const method = methodOf(value, name);
  if (method !== undefined) return new Callable(name, (args) => method(run, value, args), 'builtin_function_or_method');
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? value.attribute(name) : undefined;
}

/** Attributes of every object. */
const DUNDERS: ReadonlySet<string> = new Set(
  [
    'class',
    'doc',
    'dict',
    'dir',
    'eq',
    'format',
    'ge',
    'getattribute',
    'gt',
    'hash',
    'init',
    'init_subclass',
    'le',
    'lt',
    'module',
    'ne',
    'new',
    'reduce',
    'reduce_ex',
    'repr',
    'setattr',
    'sizeof',
    'str',
    'subclasshook',
    'len',
    'iter',
    'getitem',
    'contains',
    'add',
    'mul',
    'call',
  ].map((name) => `__${name}__`),
);

function missing(value: Value, name: Value, run: Run): Undefined {
  return new Undefined(() => {
    const owner = value === null ? 'None' : `${typeName(value)} object`;
    return typeof name === 'string'
      ? `'${owner}' has no attribute '${name}'`
      : `${owner} has no element ${repr(run, name)}`;
  });
}

/** `value.name` */
export function getAttribute(run: Run, value: Value, name: string): Value {
  if (value instanceof Undefined) throw value.fault();
  const attribute = attributeOf(run, value, name);
  if (attribute !== undefined) return attribute;
  if (value instanceof Dict) {
    const item = value.get(name);
    if (item !== undefined) return item;
  }
  return missing(value, name, run);
}

/** `value[key]` */
export function getItem(run: Run, value: Value, key: Value): Value {
  if (value instanceof Undefined) throw value.fault();
  const item = itemOf(run, value, key);
  if (item !== undefined) return item;
  const name = textOf(key);
  const attribute = name === null ? undefined : attributeOf(run, value, name);
  return attribute === undefined ? missing(value, key, run) : attribute;
}

function itemOf(run: Run, value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) {
    if (Array.isArray(key) || key instanceof Dict) return undefined; // not hashable
    if (typeof key === 'string') run.spendText(key.length);
    return value.get(key);
  }
  if (!isInteger(key)) return undefined;
  const index = Number(key);
  if (Array.isArray(value)) return value.at(index);
  if (value instanceof Tuple) return value.items.at(index);
  const text = textOf(value);
  if (text !== null) {
    run.spend(isPlain(text) ? textSteps(text.length) : text.length);
    const character = characterAt(text, index);
    return character === undefined || typeof value === 'string' ? character : new Markup(character);
  }
  if (value instanceof Range) {
    const at = index < 0 ? index + value.length : index;
    return at >= 0 && at < value.length ? value.at(at) : undefined;
  }
  return value instanceof Bytes ? value.bytes.at(index) : undefined;
}

/** Sets an attribute of a namespace. */
export function setAttribute(target: Value, name: string, value: Value): void {
  if (!(target instanceof Namespace)) throw new TemplateFault('cannot assign attribute on non-namespace object');
  target.attributes.set(name, value);
}

/** `value[start:stop:step]`. Null represents an omitted bound. */
export function slice(run: Run, value: Value, bounds: readonly [Value, Value, Value]): Value {
  if (value instanceof Undefined) throw value.fault();
  const text = textOf(value);
  if (text !== null) {
    const cut = slicedText(run, text, bounds);
    return typeof value === 'string' ? cut : new Markup(cut);
  }
  if (Array.isArray(value)) return sliced(run, value, bounds);
  if (value instanceof Tuple) return new Tuple(sliced(run, value.items, bounds));
  if (value instanceof Range) {
    const { start, step, count } = resolved(bounds, value.length);
    return new Range(value.at(start), value.at(start + count * step), value.step * step);
  }
  throw new TemplateFault(
    value instanceof Dict ? `unhashable type: 'slice'` : `'${typeName(value)}' object is not subscriptable`,
  );
}

function slicedText(run: Run, text: string, bounds: readonly [Value, Value, Value]): string {
  if (isPlain(text)) {
    const { start, step, count } = resolved(bounds, text.length);
    run.spend(step === 1 ? 1 + (text.length >> 5) : text.length);
    return step === 1 ? text.slice(start, start + count) : taken(text, start, step, count).join('');
  }
  const characters = Array.from(text);
  run.spend(characters.length);
  const { start, step, count } = resolved(bounds, characters.length);
  return taken(characters, start, step, count).join('');
}

function sliced(run: Run, items: readonly Value[], bounds: readonly [Value, Value, Value]): Value[] {
  const { start, step, count } = resolved(bounds, items.length);
  run.spend(step === 1 ? count >> 2 : count);
  return step === 1 ? items.slice(start, start + count) : taken(items, start, step, count);
}

function taken<T>(items: ArrayLike<T>, start: number, step: number, count: number): T[] {
  return Array.from({ length: count }, (_, index) => items[start + index * step] as T);
}

/** Returns which items a slice selects from a sequence of `length` items. */
function resolved(
  [start, stop, step]: readonly [Value, Value, Value],
  length: number,
): { start: number; step: number; count: number } {
  const by = bound(step) ?? 1;
  if (by === 0) throw new TemplateFault('slice step cannot be zero');
  const [low, high] = by > 0 ? [0, length] : [-1, length - 1];
  const place = (value: Value, fallback: number): number => {
    const given = bound(value);
    return given === null ? fallback : Math.min(high, Math.max(low, given < 0 ? given + length : given));
  };
  const from = place(start, by > 0 ? low : high);
  const to = place(stop, by > 0 ? high : low);
  return { start: from, step: by, count: Math.max(0, Math.ceil((to - from) / by)) };
}

function bound(value: Value): number | null {
  if (value === null) return null;
  if (!isInteger(value)) throw new TemplateFault('slice indices must be integers or None');
  return Number(value);
}
