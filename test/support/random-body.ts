// Random values that a JSON Schema allows, for the schemas published in /openapi.json. Deterministic for a given seed.

export type JsonSchema = { readonly [keyword: string]: unknown };

/** Returns an integer from 0 to `below` - 1. */
export type Random = (below: number) => number;

export function randomOf(seed: number): Random {
  let state = ((seed + 1) * 2_654_435_769) >>> 0;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

export interface BodyOptions {
  /** The document that `$ref` refers to. */
  readonly document: JsonSchema;
  readonly random: Random;
  /** Percentage of optional members to include. */
  readonly optional: number;
}

const LETTERS = 'abcXYZ019_-';
const TEXTS = ['', 'hello', 'é日本😀', ' ', '\n\t"\\', 'null', '-1'];
const DEEPEST = 7;

/** Throws on an unsupported keyword that restricts values, so that no keyword in the document is silently ignored. */
export function randomBody(schema: JsonSchema | boolean, options: BodyOptions, depth = 0): unknown {
  const { random, document } = options;
  const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T;
  if (schema === false) throw new Error('no value matches the schema `false`');
  if (schema === true || Object.keys(schema).every((keyword) => ANNOTATIONS.has(keyword)))
    return pick<unknown>([null, true, 0, 1.5, 'text', [], {}, { a: [1] }]);
  for (const keyword of Object.keys(schema))
    if (!KNOWN.has(keyword)) throw new Error(`unsupported keyword: ${keyword}`);
  const {
    $ref: ref,
    anyOf,
    oneOf,
    allOf,
    not,
    ...rest
  } = schema as Record<string, unknown> & { anyOf?: JsonSchema[]; oneOf?: JsonSchema[]; allOf?: JsonSchema[] };
  if (typeof ref === 'string') {
    return randomBody(merged(targetOf(ref, document), rest, document), options, depth);
  }
  const branches = anyOf ?? oneOf;
  if (branches !== undefined) {
    const others = { ...rest, ...(allOf === undefined ? {} : { allOf }), ...(not === undefined ? {} : { not }) };
    const possible = branches.map((branch) => merged(branch, others, document)).filter((one) => !isImpossible(one));
    if (possible.length === 0) throw new NoValue(`no branch fits ${JSON.stringify(others)}`);
    for (let left = possible.length; left > 1; left--) possible.push(...possible.splice(random(left), 1));
    const simple = possible.filter(
      ({ type, const: one }) => one !== undefined || (type !== undefined && type !== 'object' && type !== 'array'),
    );
    return firstOf(depth >= DEEPEST ? [...simple, ...possible] : possible, (one) => randomBody(one, options, depth));
  }
  if (allOf !== undefined) {
    const all = allOf.reduce<JsonSchema>((so, one) => merged(so, one, document), {
      ...rest,
      ...(not === undefined ? {} : { not }),
    });
    return randomBody(all, options, depth);
  }
  if (not !== undefined) {
    for (let attempt = 0; attempt < 100; attempt++) {
      const value = randomBody(rest, options, depth);
      if (!excludes(not as JsonSchema, value)) return value;
    }
    throw new Error(`found no value for ${JSON.stringify(schema)}`);
  }
  if ('const' in rest) return rest['const'];
  if (Array.isArray(rest['enum'])) return pick(rest['enum'] as unknown[]);
  const type = Array.isArray(rest['type'])
    ? pick(rest['type'] as string[])
    : (rest['type'] ?? (rest['properties'] === undefined ? 'string' : 'object'));
  switch (type) {
    case 'null':
      return null;
    case 'boolean':
      return random(2) === 0;
    case 'integer':
    case 'number':
      return randomNumber(rest, random, type === 'integer');
    case 'string':
      return randomText(rest, options);
    case 'array': {
      const {
        minItems: least = 0,
        maxItems: most = Infinity,
        items = true,
      } = rest as { minItems?: number; maxItems?: number; items?: JsonSchema | boolean };
      const length = Math.min(most, least + (depth >= DEEPEST ? 0 : random(3)));
      return Array.from({ length }, () => randomBody(items, options, depth + 1));
    }
    default:
      return randomObject(rest, options, depth);
  }
}

const ANNOTATIONS = new Set(['description', 'default', 'title', 'examples', '$schema', '$id', 'discriminator']);
const KNOWN = new Set([
  ...ANNOTATIONS,
  '$ref',
  'anyOf',
  'oneOf',
  'allOf',
  'not',
  'const',
  'enum',
  'type',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'items',
  'properties',
  'required',
  'additionalProperties',
  'propertyNames',
  'maxProperties',
]);

/** Thrown if the chosen branch contradicts the rest of the schema. */
class NoValue extends Error {}

function firstOf<T>(list: readonly T[], make: (item: T) => unknown): unknown {
  for (const item of list) {
    try {
      return make(item);
    } catch (error) {
      if (!(error instanceof NoValue)) throw error;
    }
  }
  throw new NoValue('no branch has a value');
}

function targetOf(ref: string, document: JsonSchema): JsonSchema {
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], document) as JsonSchema;
}

const typesOf = ({ type }: JsonSchema): readonly string[] | undefined =>
  type === undefined ? undefined : [type as string | string[]].flat();
const isImpossible = (schema: JsonSchema): boolean =>
  typesOf(schema)?.length === 0 ||
  (schema['const'] !== undefined &&
    typesOf(schema)?.includes(schema['const'] === null ? 'null' : typeof schema['const']) === false);

/** Returns the conjunction of two schemas. If both have alternatives, they are kept separate in `allOf`. */
function merged(first: JsonSchema, second: JsonSchema, document: JsonSchema): JsonSchema {
  const resolved = (schema: JsonSchema): JsonSchema => {
    const { $ref: ref, ...rest } = schema;
    return typeof ref === 'string' ? merged(targetOf(ref, document), rest, document) : schema;
  };
  const [a, b] = [resolved(first), resolved(second)];
  const required = [
    ...new Set([
      ...((a['required'] as string[] | undefined) ?? []),
      ...((b['required'] as string[] | undefined) ?? []),
    ]),
  ];
  const properties = { ...(a['properties'] as object | undefined) };
  for (const [name, schema] of Object.entries((b['properties'] as Record<string, JsonSchema> | undefined) ?? {})) {
    const known = (properties as Record<string, JsonSchema>)[name];
    Object.assign(properties, { [name]: known === undefined ? schema : { allOf: [known, schema] } });
  }
  const [types, others] = [typesOf(a), typesOf(b)];
  const type =
    types === undefined || others === undefined
      ? (types ?? others)
      : types.filter((one) => others.includes(one) || (one === 'integer' && others.includes('number')));
  const choices = ['anyOf', 'oneOf', 'not']
    .filter((keyword) => keyword in a && keyword in b)
    .map((keyword) => ({ [keyword]: b[keyword] }));
  const allOf = [
    ...((a['allOf'] as JsonSchema[] | undefined) ?? []),
    ...((b['allOf'] as JsonSchema[] | undefined) ?? []),
    ...choices,
  ];
  const own = Object.fromEntries(Object.entries(b).filter(([keyword]) => !choices.some((one) => keyword in one)));
  return {
    ...a,
    ...own,
    ...(required.length > 0 ? { required } : {}),
    ...(Object.keys(properties).length > 0 ? { properties } : {}),
    ...(type === undefined ? {} : { type }),
    ...(allOf.length > 0 ? { allOf } : {}),
  };
}

function excludes(not: JsonSchema, value: unknown): boolean {
  if ('const' in not) return value === not['const'];
  if (Array.isArray(not['enum'])) return (not['enum'] as unknown[]).includes(value);
  if (typeof not['pattern'] === 'string')
    return typeof value === 'string' && new RegExp(not['pattern'], 'u').test(value);
  if (Array.isArray(not['required'])) {
    const holds = (name: string): boolean => {
      const { type } = (not['properties'] as Record<string, JsonSchema> | undefined)?.[name] ?? {};
      const member = (value as Record<string, unknown>)[name];
      return (
        Object.hasOwn(value as object, name) &&
        (type === undefined || type === (Array.isArray(member) ? 'array' : typeof member))
      );
    };
    return (not['required'] as string[]).every(holds);
  }
  if (not['type'] === 'null') return value === null;
  throw new Error(`unsupported "not": ${JSON.stringify(not)}`);
}

function randomNumber(
  { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below }: Record<string, unknown>,
  random: Random,
  whole: boolean,
): number {
  const least = typeof minimum === 'number' ? minimum : typeof above === 'number' ? above + (whole ? 1 : 1e-6) : -1_000;
  const most =
    typeof maximum === 'number'
      ? maximum
      : typeof below === 'number'
        ? below - (whole ? 1 : 1e-6)
        : Math.max(least, 0) + 100_000;
  const kind = random(4);
  const value = kind === 0 ? least : kind === 1 ? most : least + (most - least) * (random(1_000) / 999);
  return whole ? Math.min(most, Math.max(least, Math.round(value))) : value;
}

function randomText(
  {
    minLength: least = 0,
    maxLength: most = Infinity,
    pattern,
  }: { minLength?: number; maxLength?: number; pattern?: string },
  { random }: BodyOptions,
): string {
  const [, prefix = ''] = /^\^(\w+)/.exec(pattern ?? '') ?? [];
  for (let attempt = 0; attempt < 1_000; attempt++) {
    let text =
      prefix !== '' ? prefix : pattern === undefined && random(2) === 0 ? (TEXTS[random(TEXTS.length)] as string) : '';
    const wanted = random(20) === 0 && most < 1_000 ? most : least + random(6);
    while ([...text].length < wanted) text += LETTERS[random(LETTERS.length)] as string;
    text = [...text].slice(0, most).join('');
    if (pattern === undefined || new RegExp(pattern, 'u').test(text)) return text;
  }
  throw new Error(`found no text that matches ${pattern}`);
}

function randomObject(schema: Record<string, unknown>, options: BodyOptions, depth: number): object {
  const { random, optional } = options;
  const {
    properties = {},
    required = [],
    additionalProperties: others,
    propertyNames: names,
    maxProperties: most = Infinity,
  } = schema as {
    properties?: Record<string, JsonSchema>;
    required?: string[];
    additionalProperties?: JsonSchema | boolean;
    propertyNames?: JsonSchema;
    maxProperties?: number;
  };
  const found: [string, unknown][] = [];
  for (const [name, member] of Object.entries(properties)) {
    if (required.includes(name) || (depth < DEEPEST && random(100) < optional))
      found.push([name, randomBody(member, options, depth + 1)]);
  }
  if (typeof others === 'object' || (others !== false && Object.keys(properties).length === 0)) {
    for (let left = Math.min(random(3), most - found.length); left > 0; left--) {
      const name = names === undefined ? `x${random(100)}` : String(randomBody(names, options, depth + 1));
      found.push([name, randomBody(others ?? true, options, depth + 1)]);
    }
  }
  return Object.fromEntries(found);
}
