// Which keywords of JSON Schema (draft 2020-12, and draft-07's spellings of the same) are understood. The one
// table that checks, validation and constraints on decoding go by.

/**
 * What a keyword's value has to be:
 *   schema: a schema · schemas: a list of them · map: named ones · count: a whole number from 0 · and so on.
 */
export type KeywordValue =
  | 'types' | 'schema' | 'schemas' | 'map' | 'items' | 'names' | 'list' | 'anything' | 'count' | 'number' | 'exclusive' | 'pattern' | 'text' | 'reference';

export const SUPPORTED: Readonly<Record<string, KeywordValue>> = {
  type: 'types',
  properties: 'map',
  required: 'names',
  additionalProperties: 'schema',
  enum: 'list',
  const: 'anything',
  anyOf: 'schemas',
  oneOf: 'schemas',                              // taken as anyOf
  allOf: 'schemas',
  items: 'items',                                // a list: prefixItems, as draft-07 has it
  additionalItems: 'schema',                     // draft-07's items behind such a list
  prefixItems: 'schemas',
  minItems: 'count',
  maxItems: 'count',
  $ref: 'reference',
  $defs: 'map',
  definitions: 'map',
  minLength: 'count',
  maxLength: 'count',
  pattern: 'pattern',
  format: 'text',
  minimum: 'number',
  maximum: 'number',
  exclusiveMinimum: 'exclusive',
  exclusiveMaximum: 'exclusive',
};

/** Say nothing about which values are valid. So does whatever begins with "x-". */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  'title', 'description', 'default', 'examples', '$schema', '$id', 'id', '$comment', 'deprecated', 'readOnly', 'writeOnly', 'contentEncoding', 'contentMediaType',
]);

/** Bind numbers; held to only where the type is `integer`. */
export const NUMBER_BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const;

export const isAnnotation = (keyword: string): boolean => ANNOTATIONS.has(keyword) || keyword.startsWith('x-');
