// The values that a chat template computes with. They behave like Python values, because templates are written for
// Jinja2. An int is a number or, beyond 2^53, a bigint; a str is a string; None, booleans and lists are the
// corresponding JavaScript values. All other values are instances of the classes below.

import { memberNames, spellingOf } from '../../../shared/exact-json.js';

export type Value = null | boolean | number | bigint | string | List | PythonObject;

// An interface, because a type alias cannot refer to itself.
export interface List extends Array<Value> {}

/** Evaluated arguments of a call. */
export interface Arguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value> | null;
}

export const NO_ARGUMENTS: Arguments = { positional: [], named: null };

/** Thrown for operations that are errors in Python or Jinja2. */
export class TemplateFault extends Error {}

/** A value of a type that JavaScript lacks. */
export abstract class PythonObject {
  /** The Python type's name, as shown in error messages. */
  abstract readonly typeName: string;

  /** Returns an attribute, or undefined if there is none with that name. */
  attribute(_name: string): Value | undefined {
    return undefined;
  }
}

/** The value of a variable, member or item that does not exist. Printing it prints nothing; most uses are errors. */
export class Undefined extends PythonObject {
  readonly typeName = 'Undefined';

  /** `describe`: returns a description of the missing value. Called only if the value is used. */
  constructor(private readonly describe: () => string) {
    super();
  }

  /** Returns the error to throw when the value is used. */
  fault(): TemplateFault {
    return new TemplateFault(this.describe());
  }
}

export class Float extends PythonObject {
  readonly typeName = 'float';

  constructor(readonly value: number) {
    super();
  }
}

/** Text that is already escaped for HTML. Text joined to it is escaped first. */
export class Markup extends PythonObject {
  readonly typeName = 'Markup';

  constructor(readonly text: string) {
    super();
  }
}

export class Bytes extends PythonObject {
  readonly typeName = 'bytes';

  constructor(readonly bytes: Uint8Array) {
    super();
  }
}

export class Tuple extends PythonObject {
  readonly typeName = 'tuple';

  /** `names`: attribute names of the items, as in a named tuple. */
  constructor(
    readonly items: readonly Value[],
    private readonly names: readonly string[] = [],
  ) {
    super();
  }

  override attribute(name: string): Value | undefined {
    return this.items[this.names.indexOf(name)];
  }
}

/**
 * Returns a dict key in a form in which a Map can compare it. Keys that are equal in Python, such as 1, 1.0 and True,
 * have the same form.
 */
type HashedKey = string | number | bigint | null | object;

const UNDEFINED_KEY = {};

export class Dict extends PythonObject {
  readonly typeName = 'dict';
  readonly #values = new Map<HashedKey, Value>();
  #keys: Map<HashedKey, Value> | null = null; // the keys that differ from their hashed keys
  #tuples: Map<string, object> | null = null; // hashed keys of tuples, by content

  get size(): number {
    return this.#values.size;
  }

  /** Throws TemplateFault if the key is not hashable. */
  get(key: Value): Value | undefined {
    return this.#values.get(typeof key === 'string' ? key : this.#hashed(key));
  }

  /** Throws TemplateFault if the key is not hashable. */
  has(key: Value): boolean {
    return this.#values.has(typeof key === 'string' ? key : this.#hashed(key));
  }

  /**
   * Throws TemplateFault if the key is not hashable. If the dict contains an equal key, that key keeps its position and
   * its form.
   */
  set(key: Value, value: Value): this {
    if (typeof key === 'string') {
      this.#values.set(key, value);
      return this;
    }
    const hashed = this.#hashed(key);
    if (hashed !== key && !this.#values.has(hashed)) (this.#keys ??= new Map()).set(hashed, key);
    this.#values.set(hashed, value);
    return this;
  }

  *keys(): Generator<Value> {
    for (const hashed of this.#values.keys()) yield this.#keyOf(hashed);
  }

  values(): Iterable<Value> {
    return this.#values.values();
  }

  *entries(): Generator<[key: Value, value: Value]> {
    for (const [hashed, value] of this.#values) yield [this.#keyOf(hashed), value];
  }

  copy(): Dict {
    const result = new Dict();
    for (const [key, value] of this.entries()) result.set(key, value);
    return result;
  }

  #keyOf(hashed: HashedKey): Value {
    return this.#keys?.get(hashed) ?? (hashed as Value);
  }

  #hashed(key: Value): HashedKey {
    if (typeof key === 'boolean') return Number(key);
    if (key === null || typeof key !== 'object') return key;
    if (key instanceof Float) return floatKey(key.value);
    if (key instanceof Markup) return key.text;
    if (key instanceof Undefined) return UNDEFINED_KEY;
    if (key instanceof Tuple) {
      const content = contentOf(key);
      let hashed = (this.#tuples ??= new Map()).get(content);
      if (hashed === undefined) this.#tuples.set(content, (hashed = {}));
      return hashed;
    }
    if (Array.isArray(key) || key instanceof Dict) throw new TemplateFault(`unhashable type: '${typeName(key)}'`);
    return key;
  }
}

function floatKey(value: number): HashedKey {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(value) : value;
}

/** Returns a text that is the same for equal tuples. Throws TemplateFault if an item is not hashable. */
function contentOf({ items }: Tuple): string {
  return JSON.stringify(
    items.map((item) => {
      if (item instanceof Tuple) return [contentOf(item)];
      if (item instanceof Float) return String(floatKey(item.value));
      if (item instanceof Markup) return `'${item.text}`;
      if (typeof item === 'string') return `'${item}`;
      if (typeof item === 'boolean') return String(Number(item));
      if (item === null || typeof item !== 'object') return String(item);
      throw new TemplateFault(`unhashable type: '${typeName(item)}'`);
    }),
  );
}

/** The result of a dict's keys(), values() or items(). */
export class DictView extends PythonObject {
  readonly typeName: string;

  constructor(
    readonly dict: Dict,
    readonly kind: 'keys' | 'values' | 'items',
  ) {
    super();
    this.typeName = `dict_${kind}`;
  }

  *[Symbol.iterator](): Generator<Value> {
    if (this.kind === 'keys') yield* this.dict.keys();
    else if (this.kind === 'values') yield* this.dict.values();
    else for (const entry of this.dict.entries()) yield new Tuple(entry);
  }
}

export class Range extends PythonObject {
  readonly typeName = 'range';
  readonly length: number;

  constructor(
    readonly start: number,
    readonly stop: number,
    readonly step: number,
  ) {
    super();
    this.length = Math.max(0, Math.ceil((stop - start) / step));
  }

  at(index: number): number {
    return this.start + index * this.step;
  }

  has(value: number): boolean {
    const index = (value - this.start) / this.step;
    return Number.isInteger(index) && index >= 0 && index < this.length;
  }
}

/** An iterator that can be read once, such as the result of the filter `map`. */
export class Lazy extends PythonObject {
  constructor(
    readonly iterator: Iterator<Value>,
    readonly typeName = 'generator',
  ) {
    super();
  }
}

/** The value that namespace() returns: the only one whose attributes a template can set. */
export class Namespace extends PythonObject {
  readonly typeName = 'Namespace';
  readonly attributes = new Map<string, Value>();

  override attribute(name: string): Value | undefined {
    return this.attributes.get(name);
  }
}

/** A function, method or macro. `call` throws TemplateFault. */
export class Callable extends PythonObject {
  constructor(
    readonly name: string,
    readonly call: (args: Arguments) => Value,
    readonly typeName:
      | 'function'
      | 'builtin_function_or_method'
      | 'type'
      | 'Macro'
      | 'Joiner'
      | 'LoopContext' = 'function',
    private readonly attributes: ReadonlyMap<string, Value> | null = null,
  ) {
    super();
  }

  override attribute(name: string): Value | undefined {
    return this.attributes?.get(name);
  }
}

export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  switch (typeof value) {
    case 'boolean':
      return 'bool';
    case 'number':
    case 'bigint':
      return 'int';
    case 'string':
      return 'str';
    default:
      return Array.isArray(value) ? 'list' : value.typeName;
  }
}

/** Whether the value counts as true in a condition. */
export function isTrue(value: Value): boolean {
  if (value === null || typeof value !== 'object') return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Dict) return value.size > 0;
  if (value instanceof Undefined) return false;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Markup) return value.text !== '';
  if (value instanceof Tuple) return value.items.length > 0;
  if (value instanceof Range) return value.length > 0;
  if (value instanceof DictView) return value.dict.size > 0;
  if (value instanceof Bytes) return value.bytes.length > 0;
  return true;
}

/** The text of a str or Markup, or null for other values. */
export function textOf(value: Value | undefined): string | null {
  return typeof value === 'string' ? value : value instanceof Markup ? value.text : null;
}

/** Returns an int in its normal form: a number if that is exact, otherwise a bigint. */
export function integer(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

export function isInteger(value: Value | undefined): value is number | bigint | boolean {
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
}

/**
 * Converts plain JavaScript data to a template value. Numbers that were read from JSON keep their spelling: 1.0 is a
 * float, 1 is not.
 */
export function toValue(data: unknown): Value {
  switch (typeof data) {
    case 'string':
    case 'boolean':
    case 'bigint':
      return data;
    case 'number':
      return numberValue(data);
    case 'undefined':
      return null;
    default:
      if (data === null || data instanceof PythonObject) return data;
      return Array.isArray(data) ? data.map((_, index) => memberValue(data, String(index))) : dictOf(data as object);
  }
}

function numberValue(number: number): Value {
  if (Number.isSafeInteger(number)) return number + 0; // not -0
  return Number.isInteger(number) ? BigInt(number) : new Float(number);
}

/** Entries whose value is undefined are omitted. */
function dictOf(data: object): Dict {
  const dict = new Dict();
  for (const key of memberNames(data))
    if ((data as Record<string, unknown>)[key] !== undefined) dict.set(key, memberValue(data, key));
  return dict;
}

function memberValue(container: object, key: string): Value {
  const data = (container as Record<string, unknown>)[key];
  const spelling = typeof data === 'number' ? spellingOf(container, key) : undefined;
  if (spelling === undefined) return toValue(data);
  return /[.eE]/.test(spelling) ? new Float(Number(spelling)) : integer(BigInt(spelling));
}
