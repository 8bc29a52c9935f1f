// Whether a JSON value is what a compiled schema asks for. Work and depth are bounded, whatever schema and
// value are; faults are told by place and rule, never by what the value says. Pure.
import type { SchemaNode, TypeName } from './compile-schema.js';
import { hasFormat } from './formats.js';
import { Fuel, FuelSpent } from './regular-expression.js';

/** Some 50 ms at the very worst. */
const FUEL = 2_000_000;
/** Of schemas applied within and through one another: what the stack takes several times over. */
const MAX_DEPTH = 400;

/** Null if the value fits, else a clause that says what does not and where. */
export function problemWith(value: unknown, schema: SchemaNode): string | null {
  try {
    return new Evaluation().check(schema, value, '', 0);
  } catch (error) {
    if (error instanceof FuelSpent) return 'it takes too long to hold it against the schema';
    throw error;
  }
}

class Evaluation {
  readonly #fuel = new Fuel(FUEL);
  /** What is known of objects and arrays: alternatives meet the same ones again and again. */
  readonly #known = new Map<object, Map<SchemaNode, string | null>>();

  check(node: SchemaNode, value: unknown, path: string, depth: number): string | null {
    if (typeof value !== 'object' || value === null) return this.#check(node, value, path, depth);
    let known = this.#known.get(value);
    if (known === undefined) this.#known.set(value, (known = new Map<SchemaNode, string | null>()));
    let problem = known.get(node);
    if (problem === undefined) known.set(node, (problem = this.#check(node, value, path, depth)));
    return problem;
  }

  #check(node: SchemaNode, value: unknown, path: string, depth: number): string | null {
    this.#fuel.spend(10);
    if (depth > MAX_DEPTH) return 'it is nested too deeply';
    const at = (what: string): string => `${path === '' ? 'the value' : path} ${what}`;
    if (node.never) return at('must not be there');
    if (node.types !== null && !node.types.some((type) => isOfType(value, type))) return at(`must be of type ${node.types.join(' or ')}`);
    for (const values of node.oneOfValues) {
      if (!values.some((one) => this.#equal(one, value))) return at(values.length === 1 ? 'must be the constant of the schema' : 'must be one of the enum values');
    }
    const problem = this.#ownRules(node, value, path, depth, at);
    if (problem !== null) return problem;
    for (const one of node.all) {
      const found = this.check(one, value, path, depth + 1);
      if (found !== null) return found;
    }
    for (const alternatives of node.any) {
      const found = this.#firstOf(alternatives, value, path, depth, at);
      if (found !== null) return found;
    }
    return null;
  }

  #firstOf(alternatives: readonly SchemaNode[], value: unknown, path: string, depth: number, at: (what: string) => string): string | null {
    let only: string | null = null;
    for (const one of alternatives) {
      const found = this.check(one, value, path, depth + 1);
      if (found === null) return null;
      only = alternatives.length === 1 ? found : null;
    }
    return only ?? at('fits none of the alternatives');
  }

  #ownRules(node: SchemaNode, value: unknown, path: string, depth: number, at: (what: string) => string): string | null {
    if (typeof value === 'string') return this.#text(node, value, at);
    if (typeof value === 'number') return this.#number(node, value, at);
    if (Array.isArray(value)) return this.#array(node, value, path, depth, at);
    if (typeof value === 'object' && value !== null) return this.#object(node, value as Record<string, unknown>, path, depth, at);
    return null;
  }

  #text(node: SchemaNode, value: string, at: (what: string) => string): string | null {
    if (node.minLength > 0 || node.maxLength !== Infinity) {
      this.#fuel.spend(value.length);
      let length = 0;
      for (const _ of value) length++;
      if (length < node.minLength) return at(`must have at least ${node.minLength} characters`);
      if (length > node.maxLength) return at(`must have at most ${node.maxLength} characters`);
    }
    if (node.pattern !== null && !node.pattern.matches(value, this.#fuel)) return at('must match the pattern');
    if (node.format !== null && !hasFormat(value, node.format)) return at(`must be of the format ${node.format}`);
    return null;
  }

  #number(node: SchemaNode, value: number, at: (what: string) => string): string | null {
    if (node.bounds === null) return null;
    const { minimum, maximum, above, below } = node.bounds;
    if (value < minimum) return at(`must be at least ${minimum}`);
    if (value > maximum) return at(`must be at most ${maximum}`);
    if (value <= above) return at(`must be more than ${above}`);
    if (value >= below) return at(`must be less than ${below}`);
    return null;
  }

  #array(node: SchemaNode, value: readonly unknown[], path: string, depth: number, at: (what: string) => string): string | null {
    if (value.length < node.minItems) return at(`must have at least ${node.minItems} items`);
    if (value.length > node.maxItems) return at(`must have at most ${node.maxItems} items`);
    if (node.items === null && node.prefix.length === 0) return null;
    for (const [index, item] of value.entries()) {
      const schema = node.prefix[index] ?? node.items;
      if (schema === null) break;
      const found = this.check(schema, item, `${path}/${index}`, depth + 1);
      if (found !== null) return found;
    }
    return null;
  }

  #object(node: SchemaNode, value: Readonly<Record<string, unknown>>, path: string, depth: number, at: (what: string) => string): string | null {
    this.#fuel.spend(node.required.length);
    for (const name of node.required) if (!Object.hasOwn(value, name)) return at(`lacks the property ${JSON.stringify(name.slice(0, 128))}`);
    if (node.properties === null && node.additional === null) return null;
    for (const name of Object.keys(value)) {
      const own = node.properties?.get(name);
      if (own === undefined && node.additional?.never === true) return at('has a property that is not allowed');
      const schema = own ?? node.additional;
      if (schema === null || schema === undefined) continue;
      // Names that are not the schema's are the model's words.
      const found = this.check(schema, value[name], `${path}/${own === undefined ? '*' : name.slice(0, 128)}`, depth + 1);
      if (found !== null) return found;
    }
    return null;
  }

  /** As JSON Schema has it: numbers by value, objects whatever their order. */
  #equal(a: unknown, b: unknown): boolean {
    this.#fuel.spend(1);
    if (a === b) return true;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    const names = Object.keys(a);
    if (names.length !== Object.keys(b).length) return false;
    return names.every((name) => Object.hasOwn(b, name) && this.#equal((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]));
  }
}

function isOfType(value: unknown, type: TypeName): boolean {
  switch (type) {
    case 'null': return value === null;
    case 'integer': return Number.isInteger(value);
    case 'array': return Array.isArray(value);
    case 'object': return typeof value === 'object' && value !== null && !Array.isArray(value);
    default: return typeof value === type;
  }
}
