// Merges the variants of a request type and builds the smallest value of each.
import type { Field, Shape } from './types.js';

/** All variants of an object that have the same `type` and `role`, merged. */
export interface Variant {
  /** The values of `type` and `role`, joined; '' if the object has neither. */
  tag: string;
  /** The members that make up the tag. */
  literals: Readonly<Record<string, unknown>>;
  /** All other members. */
  fields: readonly Field[];
  /** Two variants have the same key if they have the same tag and were merged from the same types. */
  key: string;
}

const TAGS = ['type', 'role'];
const ids = new WeakMap<object, number>();
let nextId = 0;

function idOf(type: object): number {
  let id = ids.get(type);
  if (id === undefined) ids.set(type, (id = nextId++));
  return id;
}

export const optionsOf = (shape: Shape): readonly Shape[] => (shape.kind === 'union' ? shape.options : [shape]);

/** Returns the object types among a type's options, merged by tag. */
export function variantsOf(shape: Shape): Variant[] {
  const byTag = new Map<string, { literals: Record<string, unknown>; types: Extract<Shape, { kind: 'object' }>[] }>();
  for (const option of optionsOf(shape)) {
    if (option.kind !== 'object') continue;
    for (const literals of tagsOf(option.fields)) {
      const tag = Object.values(literals).join(',');
      const known = byTag.get(tag);
      if (known === undefined) byTag.set(tag, { literals, types: [option] });
      else known.types.push(option);
    }
  }
  return [...byTag].map(([tag, { literals, types }]) => ({
    tag,
    literals,
    fields: merged(types.map(({ fields }) => fields)).filter(({ name }) => !Object.hasOwn(literals, name)),
    key: `${tag} ${types.map(({ id }) => idOf(id)).join()}`,
  }));
}

/** Returns every combination of values that an object's tag members can have. */
function tagsOf(fields: readonly Field[]): Record<string, unknown>[] {
  let combinations: Record<string, unknown>[] = [{}];
  for (const name of TAGS) {
    const field = fields.find((one) => one.name === name);
    if (field === undefined) continue;
    const values = optionsOf(field.shape());
    if (!values.every((one) => one.kind === 'literal')) continue;
    combinations = values.flatMap(({ value }) => combinations.map((one) => ({ ...one, [name]: value })));
  }
  return combinations;
}

function merged(lists: readonly (readonly Field[])[]): Field[] {
  const names = new Set(lists.flatMap((list) => list.map(({ name }) => name)));
  return [...names].map((name) => {
    const found = lists.map((list) => list.find((field) => field.name === name));
    const given = found.filter((field) => field !== undefined);
    return {
      name,
      required: found.every((field) => field?.required === true),
      shape: () => {
        const options = given.flatMap((field) => optionsOf(field.shape()));
        const [only] = options;
        return options.length === 1 && only !== undefined ? only : { kind: 'union', options };
      },
    };
  });
}

/** Returns the entry types of all lists among a type's options, or null if the type cannot be a list. */
export function entriesOf(shape: Shape): Shape | null {
  const lists = optionsOf(shape).flatMap((option) => (option.kind === 'list' ? optionsOf(option.entries) : []));
  return lists.length === 0 ? null : { kind: 'union', options: lists };
}

export const tagged = (path: string, { tag }: Pick<Variant, 'tag'>): string => (tag === '' ? path : `${path}[${tag}]`);
export const member = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

/** Sample values for paths whose type is not specific enough. A function receives the length that texts should have. */
export type Samples = Readonly<Record<string, unknown>>;

export class Sampler {
  constructor(private readonly samples: Samples) {}

  /** `size`: determines the number of characters in texts and numbers. */
  value(path: string, shape: Shape, size: number): unknown {
    const known = this.#known(path, size);
    if (known !== undefined) return known;
    const [option] = optionsOf(shape);
    switch (option?.kind) {
      case 'literal':
        return option.value;
      case 'string':
        return Array.from({ length: size }, () => 'word').join('_');
      case 'number':
        return size === 1 ? 1 : 1_000;
      case 'boolean':
        return size === 1;
      case 'list':
        return [this.value(path, option.entries, size)];
      case 'map':
        return { key: this.value(`${path}.*`, option.value, size) };
      case 'object': {
        const [variant] = variantsOf(shape);
        return variant === undefined ? {} : this.object(path, variant, size);
      }
      default:
        return { type: 'object', properties: {}, ...(size === 1 ? {} : { description: 'word'.repeat(size) }) };
    }
  }

  /** An object with only the required members. */
  object(path: string, variant: Variant, size: number): Record<string, unknown> {
    const at = tagged(path, variant);
    const value: Record<string, unknown> = { ...variant.literals };
    for (const { name, required, shape } of variant.fields)
      if (required) value[name] = this.value(member(at, name), shape(), size);
    return { ...value, ...(this.#known(at, size) as object | undefined) };
  }

  #known(path: string, size: number): unknown {
    if (!Object.hasOwn(this.samples, path)) return undefined;
    const value = this.samples[path];
    return typeof value === 'function' ? (value as (size: number) => unknown)(size) : structuredClone(value);
  }
}
