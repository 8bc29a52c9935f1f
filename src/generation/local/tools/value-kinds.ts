// What the values of a tool's arguments may be where a call's syntax does not say: bare text is a string, or JSON, by the
// tool's schema. The reader of such calls and the grammar that binds them both go by this. Pure.

export type ParametersSchema = Readonly<Record<string, unknown>> | null;

/** A string, as it stands; that or null; whatever JSON it spells. */
export type ValueKind = 'text' | 'nullable' | 'json';

export interface ValueKinds {
  readonly named: ReadonlyMap<string, ValueKind>;
  readonly others: ValueKind;
}

const MAX_DEPTH = 16;
const MAX_LOOKS = 4_096;

export function kindOf({ named, others }: ValueKinds, name: string): ValueKind {
  return named.get(name) ?? others;
}

/** Of a tool's parameters. */
export function valueKinds(schema: ParametersSchema): ValueKinds {
  const root: unknown = schema ?? {};
  const types = new TypesOf(root);
  const named = new Map<string, ValueKind>();
  let others: ValueKind = 'text';
  for (const part of types.parts(root)) {
    if (isObject(part['properties'])) {
      for (const [name, property] of Object.entries(part['properties'])) {
        const kind = types.kind(property);
        const known = named.get(name);
        named.set(name, known === undefined || known === kind ? kind : 'json');
      }
    }
    if (isObject(part['patternProperties'])) others = 'json';
    if (isObject(part['additionalProperties']) && others === 'text') others = types.kind(part['additionalProperties']);
  }
  return { named, others };
}

type Schema = Readonly<Record<string, unknown>>;

/** The types a schema lets a value have, as far as it says; null: it says nothing. */
class TypesOf {
  #looks = 0;

  constructor(private readonly root: unknown) {}

  kind(schema: unknown): ValueKind {
    const types = this.#types(schema, 0);
    if (types === null) return 'text';
    if (!types.has('string')) return 'json';
    if (types.size === 1) return 'text';
    return types.size === 2 && types.has('null') ? 'nullable' : 'json';
  }

  /** A schema and those it is made of. */
  parts(schema: unknown, depth = 0): Schema[] {
    if (!isObject(schema) || depth > MAX_DEPTH || this.#looks++ > MAX_LOOKS) return [];
    const inner = ['allOf', 'anyOf', 'oneOf'].flatMap((word) => (Array.isArray(schema[word]) ? (schema[word] as unknown[]) : []));
    const referred = typeof schema['$ref'] === 'string' ? [this.#resolve(schema['$ref'])] : [];
    return [schema, ...[...inner, ...referred].flatMap((part) => this.parts(part, depth + 1))];
  }

  #types(schema: unknown, depth: number): Set<string> | null {
    if (!isObject(schema)) return null;
    if (depth > MAX_DEPTH || this.#looks++ > MAX_LOOKS) return new Set(['any']);
    let types: Set<string> | null = null;
    const meet = (other: Set<string> | null): void => {
      if (other !== null) types = types === null ? other : new Set([...types].filter((type) => other.has(type)));
    };
    const { type, enum: values, const: value, $ref, allOf } = schema;
    if (typeof type === 'string') meet(new Set([type]));
    if (Array.isArray(type)) meet(new Set(type.filter((one) => typeof one === 'string')));
    if (Array.isArray(values)) meet(new Set(values.map(typeOf)));
    if ('const' in schema) meet(new Set([typeOf(value)]));
    if (typeof $ref === 'string') {
      const target = this.#resolve($ref);
      meet(target === undefined ? new Set(['any']) : this.#types(target, depth + 1));
    }
    if (Array.isArray(allOf)) for (const part of allOf) meet(this.#types(part, depth + 1));
    for (const ways of [schema['anyOf'], schema['oneOf']]) {
      if (!Array.isArray(ways)) continue;
      const all = ways.map((way) => this.#types(way, depth + 1) ?? new Set(['any']));
      meet(new Set(all.flatMap((some) => [...some])));
    }
    return types;
  }

  /** Within the document; undefined if it is not there. */
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

function unescaped(step: string): string {
  const plain = step.replaceAll('~1', '/').replaceAll('~0', '~');
  try {
    return decodeURIComponent(plain);
  } catch {
    return plain;
  }
}

/** As a schema names it; whole numbers count as numbers too, which is of no matter here. */
function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
