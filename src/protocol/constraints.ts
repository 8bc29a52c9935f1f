// Output constraints under the names that clients of other servers use: vLLM's `structured_outputs` and its older
// `guided_*`, SGLang's and llama-server's `json_schema`, `regex`, `grammar` and `ebnf`. All formats accept them. No
// side effects.
import { z } from 'zod';
import { apiError, type ApiError } from '../shared/errors.js';
import { parseJsonBody } from '../http/json.js';
import {
  MAX_CHOICE_CHARACTERS,
  MAX_CHOICES,
  MAX_GRAMMAR_CHARACTERS,
  MAX_PATTERN_CHARACTERS,
  MAX_SCHEMA_CHARACTERS,
} from '../generation/output-format.js';
import type { JsonSchema, OutputFormat } from '../generation/types.js';
import { jsonObject } from './fields.js';

/** White space can make the text of a schema longer than the schema itself. */
const MAX_SCHEMA_TEXT = 4 * MAX_SCHEMA_CHARACTERS;

/** vLLM also accepts a schema as JSON text. */
const schema = () => z.union([z.string().min(1), jsonObject()]).nullish();
const pattern = () => z.string().min(1).max(MAX_PATTERN_CHARACTERS).nullish();
const grammar = () => z.string().min(1).max(MAX_GRAMMAR_CHARACTERS).nullish();
const choices = () => z.array(z.string().min(1).max(MAX_CHOICE_CHARACTERS)).min(1).max(MAX_CHOICES).nullish();

const structuredOutputs = z.object({
  json: schema(),
  regex: pattern(),
  choice: choices(),
  grammar: grammar(),
  json_object: z.boolean().nullish(),
  structural_tag: z.unknown().optional(),
});

export const constraintFields = {
  structured_outputs: structuredOutputs.nullish(),
  guided_json: schema(),
  guided_regex: pattern(),
  guided_choice: choices(),
  guided_grammar: grammar(),
  json_schema: schema(),
  regex: pattern(),
  choice: choices(),
  grammar: grammar(),
  ebnf: grammar(),
  structural_tag: z.unknown().optional(),
};

type ConstraintInput = { readonly [K in keyof typeof constraintFields]?: z.infer<(typeof constraintFields)[K]> };

/** The output constraint types, and the type of each field. */
type Kind = 'json' | 'regex' | 'choice' | 'grammar';
const KINDS = {
  guided_json: 'json',
  guided_regex: 'regex',
  guided_choice: 'choice',
  guided_grammar: 'grammar',
  json_schema: 'json',
  regex: 'regex',
  choice: 'choice',
  grammar: 'grammar',
  ebnf: 'grammar',
} as const satisfies Partial<Record<keyof ConstraintInput, Kind>>;

/**
 * Returns the output format of a request. `own`: the format from the API format's own field. Throws ApiError 422 if
 * several fields set a constraint, or if a structural tag is used.
 */
export function constrainedFormat(input: ConstraintInput, own: OutputFormat, ownPath: string): OutputFormat {
  const found: { path: string; format: OutputFormat }[] = own.type === 'text' ? [] : [{ path: ownPath, format: own }];
  const add = (kind: Kind, value: unknown, path: string): void => {
    if (value === null || value === undefined) return;
    found.push({ path, format: formatOf(kind, value, path) });
  };
  const { structured_outputs: nested } = input;
  if (nested != null) {
    for (const kind of ['json', 'regex', 'choice', 'grammar'] as const)
      add(kind, nested[kind], `structured_outputs.${kind}`);
    if (nested.json_object === true)
      found.push({ path: 'structured_outputs.json_object', format: { type: 'json_object' } });
    if (nested.structural_tag != null) throw structuralTag('structured_outputs.structural_tag');
  }
  for (const [name, kind] of Object.entries(KINDS) as [keyof typeof KINDS, Kind][]) add(kind, input[name], name);
  if (input.structural_tag != null) throw structuralTag('structural_tag');
  const [first, second] = found;
  if (first === undefined) return own;
  if (second !== undefined)
    throw apiError(
      'conflicting_parameters',
      `${first.path} and ${second.path} both constrain the output; use only one of them.`,
      second.path,
    );
  return first.format;
}

export const structuralTag = (path: string): ApiError =>
  apiError(
    'unsupported_value',
    `${path}: structural tags are not supported; use a JSON Schema, a regular expression or a grammar.`,
    path,
  );

function formatOf(kind: Kind, value: unknown, path: string): OutputFormat {
  switch (kind) {
    case 'json':
      return {
        type: 'json_schema',
        name: null,
        schema: schemaOf(value as string | JsonSchema, path),
        strict: false,
        path,
      };
    case 'regex':
      return { type: 'regex', pattern: value as string, path };
    case 'choice':
      return { type: 'choice', choices: value as string[], path };
    case 'grammar':
      return { type: 'grammar', grammar: value as string, path };
  }
}

function schemaOf(value: string | JsonSchema, path: string): JsonSchema {
  if (typeof value !== 'string') return value;
  try {
    if (value.length > MAX_SCHEMA_TEXT)
      throw new Error(`The schema is longer than ${MAX_SCHEMA_TEXT / 1024} KiB of JSON.`);
    return parseJsonBody(Buffer.from(value), 'schema') as JsonSchema;
  } catch (error) {
    throw apiError('invalid_json_schema', `${path}: ${(error as Error).message}`, path);
  }
}
