// From a client's JSON Schema to nodes that can be evaluated, with every fault found on the way and the size
// of the whole bounded. One walk, linear in the schema; nothing of it is run as code. Pure.
import { apiError } from '../../errors.js';
import type { JsonSchema } from '../types.js';
import { FORMATS } from './formats.js';
import { isAnnotation, NUMBER_BOUNDS, SUPPORTED } from './keywords.js';
import { isPattern, MAX_STATES, RegularExpression } from './regular-expression.js';
import { MAX_SCHEMA_CHARACTERS, sizeUpTo } from './schema-size.js';

export type TypeName = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';
const TYPES: ReadonlySet<string> = new Set(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'] satisfies TypeName[]);

/** One schema within a schema. What is null or empty demands nothing. */
export interface SchemaNode {
  never: boolean;                                // the schema `false`
  types: readonly TypeName[] | null;
  oneOfValues: (readonly unknown[])[];           // enum and const: each list has to hold the value
  properties: ReadonlyMap<string, SchemaNode> | null;
  required: readonly string[];
  additional: SchemaNode | null;
  prefix: readonly SchemaNode[];
  items: SchemaNode | null;                      // behind the prefix
  minItems: number; maxItems: number;
  minLength: number; maxLength: number;
  pattern: RegularExpression | null;
  format: string | null;
  bounds: { minimum: number; maximum: number; above: number; below: number } | null;   // of integers
  all: SchemaNode[];
  any: (readonly SchemaNode[])[];                // of each list one has to fit
}

export interface CompiledSchema {
  root: SchemaNode;
  /** The first keyword that is not understood and was left out. */
  unsupported: { path: string; keyword: string; why: string } | null;
  /** As compact JSON, about. */
  characters: number;
  /** Of all patterns together. */
  patternCharacters: number;
}

const MAX_PROPERTIES = 5_000;
const MAX_NESTING = 64;
const MAX_ENUM_VALUES = 1_000;
/** Of one pattern. */
const MAX_PATTERN_CHARACTERS = 4_096;
/** Of all patterns of a request together. */
export const MAX_ALL_PATTERN_CHARACTERS = 128 * 1024;
/** Of all patterns together. */
const MAX_PATTERN_STATES = 50_000;
/** Schemas applied to the same value one through the other, by $ref, anyOf or allOf. */
const MAX_APPLIED_DEPTH = 200;

/** `path`: where the schema stands in the request. Throws ApiError 422 invalid_json_schema. */
export function compileSchema(schema: JsonSchema, path: string): CompiledSchema {
  const characters = sizeUpTo(schema, MAX_SCHEMA_CHARACTERS);
  if (characters > MAX_SCHEMA_CHARACTERS) invalid({ base: null, key: path }, `the schema is longer than ${MAX_SCHEMA_CHARACTERS / 1024} KiB`);
  return { ...new Compiler(schema, path).compile(), characters };
}

/** Where something stands; spelled out only when it has to be told. */
interface Path { readonly base: Path | null; readonly key: string | number }

const below = (base: Path, key: string | number): Path => ({ base, key });

/** A path is made of the client's own words and may be as long as they: it is cut. */
function spelled(path: Path): string {
  const steps: string[] = [];
  let at = path;
  for (; at.base !== null; at = at.base) {
    const { key } = at;
    steps.push(typeof key === 'number' ? `[${key}]` : /^[\w$-]{1,128}$/.test(key) ? `.${key}` : `[${JSON.stringify(key.slice(0, 128))}]`);
  }
  const whole = `${at.key}${steps.reverse().join('')}`;
  return whole.length > 400 ? `${whole.slice(0, 400)}…` : whole;
}

function invalid(path: Path, what: string): never {
  const place = spelled(path);
  throw apiError('invalid_json_schema', `${place}: ${what}.`, place);
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null && !Array.isArray(value);

class Compiler {
  readonly #nodes = new Map<object, SchemaNode>();
  readonly #references: { node: SchemaNode; pointer: string; path: Path }[] = [];
  readonly #never = newNode();
  readonly #anything = newNode();
  #unsupported: CompiledSchema['unsupported'] = null;
  #properties = 0;
  #enumValues = 0;
  #patternCharacters = 0;
  #patternStates = 0;

  readonly #path: Path;

  constructor(private readonly schema: JsonSchema, path: string) {
    this.#path = { base: null, key: path };
    this.#never.never = true;
  }

  compile(): Omit<CompiledSchema, 'characters'> {
    const root = this.#node(this.schema, this.#path, 1);
    // References are followed after the walk, so that recursion ends; what they lead to may hold further ones.
    for (let reference = this.#references.pop(); reference !== undefined; reference = this.#references.pop()) {
      const { node, pointer, path } = reference;
      node.all.push(this.#node(this.#resolve(pointer, path), pointer.split('/').slice(1).reduce(below, this.#path), 1));
    }
    this.#refuseEndless();
    return { root, unsupported: this.#unsupported, patternCharacters: this.#patternCharacters };
  }

  #node(value: unknown, path: Path, depth: number): SchemaNode {
    if (value === true) return this.#anything;
    if (value === false) return this.#never;
    if (!isRecord(value)) return invalid(path, 'a schema must be an object or a boolean');
    if (depth > MAX_NESTING) invalid(path, `schemas are nested more than ${MAX_NESTING} deep`);
    const known = this.#nodes.get(value);
    if (known !== undefined) return known;
    const node = newNode();
    this.#nodes.set(value, node);
    for (const keyword of Object.keys(value)) this.#keyword(node, value, keyword, path, depth + 1);
    return node;
  }

  #keyword(node: SchemaNode, schema: Readonly<Record<string, unknown>>, keyword: string, base: Path, depth: number): void {
    const kind = Object.hasOwn(SUPPORTED, keyword) ? SUPPORTED[keyword] : undefined;
    if (kind === undefined) {
      if (!isAnnotation(keyword)) this.#leaveOut(base, keyword);
      return;
    }
    const value = schema[keyword];
    const path = below(base, keyword);
    switch (kind) {
      case 'types': node.types = typesOf(value, path); return;
      case 'anything': node.oneOfValues.push([value]); return;
      case 'list': node.oneOfValues.push(this.#values(value, path)); return;
      case 'names':
        // Draft 3 had a boolean here, of the property itself.
        if (typeof value === 'boolean') this.#leaveOut(base, keyword);
        else node.required = namesOf(value, path);
        return;
      case 'map': this.#map(node, keyword, value, path, depth); return;
      case 'schemas': this.#schemas(node, keyword, value, path, depth); return;
      case 'items': this.#items(node, schema, path, depth); return;
      case 'schema': this.#schema(node, schema, keyword, path, depth); return;
      case 'count': this.#count(node, keyword as 'minItems', value, path); return;
      case 'number': case 'exclusive': this.#bound(node, schema, keyword, base); return;
      case 'pattern': this.#pattern(node, value, base); return;
      case 'text':
        if (typeof value !== 'string') invalid(path, 'format must be a string');
        if (FORMATS.has(value as string)) node.format = value as string;
        else this.#leaveOut(base, keyword, 'this format is not known');
        return;
      case 'reference': this.#reference(node, value, base); return;
    }
  }

  #leaveOut(path: Path, keyword: string, why = ''): void {
    this.#unsupported ??= { path: spelled(below(path, keyword)), keyword: keyword.slice(0, 64), why };
  }

  #values(value: unknown, path: Path): readonly unknown[] {
    if (!Array.isArray(value)) return invalid(path, 'enum must be an array');
    this.#enumValues += value.length;
    if (this.#enumValues > MAX_ENUM_VALUES) invalid(path, `the schema has more than ${MAX_ENUM_VALUES} enum values`);
    return value;
  }

  #map(node: SchemaNode, keyword: string, value: unknown, path: Path, depth: number): void {
    if (!isRecord(value)) return invalid(path, `${keyword} must be an object`);
    const entries = Object.keys(value);
    if (keyword === 'properties') {
      this.#properties += entries.length;
      if (this.#properties > MAX_PROPERTIES) invalid(path, `the schema has more than ${MAX_PROPERTIES} properties`);
    }
    const nodes = new Map(entries.map((name) => [name, this.#node(value[name], below(path, name), depth)]));
    if (keyword === 'properties') node.properties = nodes;
  }

  #list(value: unknown, path: Path, depth: number): SchemaNode[] {
    if (!Array.isArray(value) || value.length === 0) return invalid(path, 'a non-empty array of schemas is needed here');
    return value.map((item: unknown, index) => this.#node(item, below(path, index), depth));
  }

  #schemas(node: SchemaNode, keyword: string, value: unknown, path: Path, depth: number): void {
    const nodes = this.#list(value, path, depth);
    if (keyword === 'allOf') node.all.push(...nodes);
    else if (keyword === 'prefixItems') node.prefix = nodes;
    else node.any.push(nodes);
  }

  #items(node: SchemaNode, schema: Readonly<Record<string, unknown>>, path: Path, depth: number): void {
    if (!Array.isArray(schema['items'])) node.items = this.#node(schema['items'], path, depth);
    else if (schema['items'].length > 0) node.prefix = this.#list(schema['items'], path, depth);
  }

  #schema(node: SchemaNode, schema: Readonly<Record<string, unknown>>, keyword: string, path: Path, depth: number): void {
    const value = this.#node(schema[keyword], path, depth);
    if (keyword === 'additionalProperties') node.additional = value;
    else if (Array.isArray(schema['items'])) node.items = value;
  }

  #count(node: SchemaNode, keyword: 'minItems' | 'maxItems' | 'minLength' | 'maxLength', value: unknown, path: Path): void {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) return invalid(path, `${keyword} must be a whole number from 0`);
    node[keyword] = value;
  }

  #bound(node: SchemaNode, schema: Readonly<Record<string, unknown>>, keyword: string, base: Path): void {
    const value = schema[keyword];
    // Draft 4 had booleans here, and OpenAPI 3.0 still has.
    if (typeof value === 'boolean' && keyword.startsWith('exclusive')) return this.#leaveOut(base, keyword, 'it has to be a number');
    if (typeof value !== 'number') return invalid(below(base, keyword), `${keyword} must be a number`);
    const types: unknown[] = Array.isArray(schema['type']) ? schema['type'] : [schema['type']];
    if (!types.includes('integer') || types.includes('number')) return this.#leaveOut(base, keyword, 'bounds are supported for type integer alone');
    const bounds = (node.bounds ??= { minimum: -Infinity, maximum: Infinity, above: -Infinity, below: Infinity });
    switch (keyword as (typeof NUMBER_BOUNDS)[number]) {
      case 'minimum': bounds.minimum = value; return;
      case 'maximum': bounds.maximum = value; return;
      case 'exclusiveMinimum': bounds.above = value; return;
      case 'exclusiveMaximum': bounds.below = value; return;
    }
  }

  #pattern(node: SchemaNode, value: unknown, base: Path): void {
    if (typeof value !== 'string') return invalid(below(base, 'pattern'), 'pattern must be a string');
    if (value.length > MAX_PATTERN_CHARACTERS) invalid(below(base, 'pattern'), `the pattern is longer than ${MAX_PATTERN_CHARACTERS} characters`);
    this.#patternCharacters += value.length;
    if (this.#patternCharacters > MAX_ALL_PATTERN_CHARACTERS) invalid(below(base, 'pattern'), `all patterns together are longer than ${MAX_ALL_PATTERN_CHARACTERS} characters`);
    const left = MAX_PATTERN_STATES - this.#patternStates;
    const pattern = RegularExpression.of(value, Math.min(MAX_STATES, left));
    this.#patternStates += pattern?.size ?? 0;
    if (pattern !== null) node.pattern = pattern;
    else if (!isPattern(value)) invalid(below(base, 'pattern'), 'pattern must be a regular expression');
    else this.#leaveOut(base, 'pattern', 'it is too large, or has look-around, back-references or the like');
  }

  #reference(node: SchemaNode, value: unknown, base: Path): void {
    const path = below(base, '$ref');
    if (typeof value !== 'string') return invalid(path, '$ref must be a string');
    if (value === '#' || value.startsWith('#/')) this.#references.push({ node, pointer: value, path });
    else this.#leaveOut(base, '$ref', 'references lead to # or below it');
  }

  #resolve(pointer: string, path: Path): unknown {
    let value: unknown = this.schema;
    for (const step of pointer.split('/').slice(1)) {
      const key = decoded(step);
      if (typeof value !== 'object' || value === null || key === null || !Object.hasOwn(value, key)) return invalid(path, '$ref leads nowhere');
      value = (value as Record<string, unknown>)[key];
    }
    return value;
  }

  /** Schemas that lead back to themselves at the same value would never come to an end. */
  #refuseEndless(): void {
    const depths = new Map<SchemaNode, number>();
    const depthOf = (node: SchemaNode, above: number): number => {
      const known = depths.get(node);
      if (known === -1) return invalid(this.#path, '$ref leads back to itself without going through a property or an item');
      if (known !== undefined) return known;
      if (above > MAX_APPLIED_DEPTH) invalid(this.#path, `references follow each other more than ${MAX_APPLIED_DEPTH} times`);
      depths.set(node, -1);
      let depth = 0;
      for (const list of [node.all, ...node.any]) for (const next of list) depth = Math.max(depth, depthOf(next, above + 1));
      if (depth >= MAX_APPLIED_DEPTH) invalid(this.#path, `references follow each other more than ${MAX_APPLIED_DEPTH} times`);
      depths.set(node, depth + 1);
      return depth + 1;
    };
    for (const node of this.#nodes.values()) depthOf(node, 0);
  }
}

/** One step of a JSON pointer in a URI fragment; null if it is no such thing. */
function decoded(step: string): string | null {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return null;
  }
}

function typesOf(value: unknown, path: Path): TypeName[] {
  const types: unknown[] = Array.isArray(value) ? value : [value];
  if (types.length === 0 || !types.every((type) => typeof type === 'string' && TYPES.has(type))) {
    return invalid(path, `type must be one of ${[...TYPES].join(', ')}, or an array of them`);
  }
  return types as TypeName[];
}

function namesOf(value: unknown, path: Path): string[] {
  if (!Array.isArray(value) || !value.every((name) => typeof name === 'string')) return invalid(path, 'required must be an array of strings');
  return value as string[];
}

function newNode(): SchemaNode {
  return {
    never: false, types: null, oneOfValues: [], properties: null, required: [], additional: null, prefix: [], items: null,
    minItems: 0, maxItems: Infinity, minLength: 0, maxLength: Infinity, pattern: null, format: null, bounds: null, all: [], any: [],
  };
}
