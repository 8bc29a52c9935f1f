// Determines the JSON types that the schema allows for a value at any position of a tool's arguments. Used by syntaxes
// that write numbers and strings alike. No side effects.

export type Schema = Readonly<Record<string, unknown>>;

const MAX_DEPTH = 16;
const MAX_LOOKS = 4_096;

/** One instance per tool. All schemas passed in must be parts of the tool's parameter schema. */
export class ValueTypes {
  #looks = 0;

  constructor(private readonly root: unknown) {}

  /**
   * Returns the type names of a schema. Returns null if the type is not restricted. The result contains 'any' if parts
   * of the schema cannot be analyzed.
   */
  types(schema: unknown, depth = 0): Set<string> | null {
    if (!isObject(schema)) return null;
    if (depth > MAX_DEPTH || this.#looks++ > MAX_LOOKS) return new Set(['any']);
    let types: Set<string> | null = null;
    const meet = (other: Set<string> | null): void => {
      if (other !== null) types = types === null ? other : both(types, other);
    };
    const { type, enum: values, const: value, $ref, allOf } = schema;
    if (typeof type === 'string') meet(new Set([type]));
    if (Array.isArray(type)) meet(new Set(type.filter((one) => typeof one === 'string')));
    if (Array.isArray(values)) meet(new Set(values.map(typeOf)));
    if ('const' in schema) meet(new Set([typeOf(value)]));
    if (typeof $ref === 'string') {
      const target = this.#resolve($ref);
      meet(target === undefined ? new Set(['any']) : this.types(target, depth + 1));
    }
    if (Array.isArray(allOf)) for (const part of allOf) meet(this.types(part, depth + 1));
    for (const ways of [schema['anyOf'], schema['oneOf']]) {
      if (!Array.isArray(ways)) continue;
      const all = ways.map((way) => this.types(way, depth + 1) ?? new Set(['any']));
      meet(new Set(all.flatMap((some) => [...some])));
    }
    return types;
  }

  /** Yields a schema and its subschemas that apply to the same value. */
  parts(schema: unknown, depth = 0): Schema[] {
    if (!isObject(schema) || depth > MAX_DEPTH || this.#looks++ > MAX_LOOKS) return [];
    const inner = ['allOf', 'anyOf', 'oneOf'].flatMap((word) =>
      Array.isArray(schema[word]) ? (schema[word] as unknown[]) : [],
    );
    const referred = typeof schema['$ref'] === 'string' ? [this.#resolve(schema['$ref'])] : [];
    return [schema, ...[...inner, ...referred].flatMap((part) => this.parts(part, depth + 1))];
  }

  /** Returns the schema of an object's member; undefined allows any value. */
  member(schema: unknown, name: string): unknown {
    const found: unknown[] = [];
    const others: unknown[] = [];
    for (const { properties, additionalProperties, patternProperties } of this.parts(schema)) {
      if (isObject(properties) && Object.hasOwn(properties, name)) found.push(properties[name]);
      else if (isObject(patternProperties)) return undefined;
      else if (isObject(additionalProperties)) others.push(additionalProperties);
    }
    return oneOf(found.length > 0 ? found : others);
  }

  /** Returns the schema of an array's item; undefined allows any value. */
  item(schema: unknown, index: number): unknown {
    const found: unknown[] = [];
    for (const { items, prefixItems } of this.parts(schema)) {
      const prefix = Array.isArray(prefixItems)
        ? (prefixItems as unknown[])
        : Array.isArray(items)
          ? (items as unknown[])
          : [];
      if (index < prefix.length) found.push(prefix[index]);
      else if (isObject(items)) found.push(items);
    }
    return oneOf(found);
  }

  /** Resolves a reference within the document; undefined if the target does not exist. */
  #resolve(reference: string): unknown {
    if (!reference.startsWith('#')) return undefined;
    let at: unknown = this.root;
    for (const step of reference.slice(1).split('/').slice(1)) {
      const name = unescaped(step);
      if (Array.isArray(at)) at = at[Number(name)];
      else at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
    }
    return at;
  }
}

function both(some: Set<string>, others: Set<string>): Set<string> {
  if (some.has('any')) return others;
  if (others.has('any')) return some;
  const whole = (types: Set<string>, by: Set<string>): string[] =>
    [...types].filter((type) => by.has(type) || (type === 'integer' && by.has('number')));
  return new Set([...whole(some, others), ...whole(others, some)]);
}

/** Combines several alternative schemas. */
function oneOf(schemas: readonly unknown[]): unknown {
  return schemas.length < 2 ? schemas[0] : { anyOf: schemas };
}

function unescaped(step: string): string {
  const plain = step.replaceAll('~1', '/').replaceAll('~0', '~');
  try {
    return decodeURIComponent(plain);
  } catch {
    return plain;
  }
}

/** Returns the JSON Schema type of a value. Integers have the type "number". */
export function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
