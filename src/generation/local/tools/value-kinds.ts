// The kinds of a tool's argument values in syntaxes without quotes: the tool's schema decides whether text is a string
// or JSON. Both the reader of such calls and their grammar use this. No side effects.
import { isObject, ValueTypes } from './value-types.js';

export type ParametersSchema = Readonly<Record<string, unknown>> | null;

/** text: a literal string. nullable: a string or null. json: any JSON value. */
export type ValueKind = 'text' | 'nullable' | 'json';

export interface ValueKinds {
  readonly named: ReadonlyMap<string, ValueKind>;
  readonly others: ValueKind;
}

export function kindOf({ named, others }: ValueKinds, name: string): ValueKind {
  return named.get(name) ?? others;
}

/** Determines the kinds for a tool's parameters. */
export function valueKinds(schema: ParametersSchema): ValueKinds {
  const root: unknown = schema ?? {};
  const types = new ValueTypes(root);
  const named = new Map<string, ValueKind>();
  let others: ValueKind = 'text';
  for (const part of types.parts(root)) {
    if (isObject(part['properties'])) {
      for (const [name, property] of Object.entries(part['properties'])) {
        const kind = kindOfTypes(types.types(property));
        const known = named.get(name);
        named.set(name, known === undefined || known === kind ? kind : 'json');
      }
    }
    if (isObject(part['patternProperties'])) others = 'json';
    if (isObject(part['additionalProperties']) && others === 'text')
      others = kindOfTypes(types.types(part['additionalProperties']));
  }
  return { named, others };
}

function kindOfTypes(types: ReadonlySet<string> | null): ValueKind {
  if (types === null) return 'text';
  if (!types.has('string')) return 'json';
  if (types.size === 1) return 'text';
  return types.size === 2 && types.has('null') ? 'nullable' : 'json';
}
