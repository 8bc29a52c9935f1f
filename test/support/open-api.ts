// Validators for real responses, built from the published API descriptions in test/data/specs.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { root } from '../e2e/monolith.js';

export type Spec = 'openai' | 'openresponses';

const files: Record<Spec, string> = {
  openai: 'openai-chat-responses.json',
  openresponses: 'openresponses-2026-04-24.json',
};

type Schema = Record<string, unknown>;
interface Document {
  components: { schemas: Record<string, Schema> };
}

const loaded = new Map<Spec, Ajv2020>();
const compiled = new Map<string, ValidateFunction>();

function document(spec: Spec): Document {
  const content = JSON.parse(readFileSync(join(root, 'test', 'data', 'specs', files[spec]), 'utf8')) as Document;
  for (const change of changes[spec]) change(content.components.schemas);
  return content;
}

// Corrections to the descriptions, for cases where clients or the other description require something else.
const changes: Record<Spec, ((schemas: Record<string, Schema>) => void)[]> = {
  openai: [
    allowNull,
    // A response's `user` is null if the request had none, as in the vendor's API.
    (schemas) =>
      replaceIn(schemas['ModelResponseProperties'], 'user', { anyOf: [{ type: 'string' }, { type: 'null' }] }),
    // A schema's `description` may be null as well.
    (schemas) =>
      replaceIn(schemas['TextResponseFormatJsonSchema'], 'description', {
        anyOf: [{ type: 'string' }, { type: 'null' }],
      }),
    // `usage` may be null until the response ends, as in the vendor's own events.
    (schemas) => {
      const parts = schemas['Response']?.['allOf'] as Schema[];
      replaceIn(
        parts.find((part) => (part['properties'] as Schema | undefined)?.['usage'] !== undefined),
        'usage',
        { anyOf: [{ $ref: '#/components/schemas/ResponseUsage' }, { type: 'null' }] },
      );
    },
  ],
  openresponses: [
    // According to the description, the response's text.format.schema can only be null, but the openai client needs the
    // object.
    (schemas) =>
      replaceIn(schemas['JsonSchemaResponseFormat'], 'schema', { anyOf: [{ type: 'object' }, { type: 'null' }] }),
  ],
};

/** Rewrites OpenAPI 3.0's `nullable`, which JSON Schema validators support only next to `type`, and not for an enum. */
function allowNull(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  const schema = value as Schema;
  if (schema['nullable'] === true) {
    if (Array.isArray(schema['enum'])) schema['enum'].push(null);
    if (schema['type'] === undefined) {
      const { nullable: _, ...rest } = schema;
      for (const key of Object.keys(schema)) delete schema[key];
      schema['anyOf'] = [rest, { type: 'null' }];
    }
  }
  for (const inner of Object.values(value)) allowNull(inner);
}

function replaceIn(schema: Schema | undefined, property: string, by: Schema): void {
  const properties = schema?.['properties'] as Record<string, Schema> | undefined;
  if (properties?.[property] === undefined) throw new Error(`the description no longer has ${property}`);
  properties[property] = by;
}

function validator(spec: Spec, schema: string): ValidateFunction {
  const key = `${spec} ${schema}`;
  let validate = compiled.get(key);
  if (validate !== undefined) return validate;
  let ajv = loaded.get(spec);
  if (ajv === undefined) {
    ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: false });
    ajv.addSchema(document(spec), spec);
    loaded.set(spec, ajv);
  }
  validate = ajv.compile({ $ref: `${spec}#/components/schemas/${schema}` });
  compiled.set(key, validate);
  return validate;
}

/** Returns null if `value` matches the named schema; otherwise, the location and reason of the mismatch. */
export function mismatch(spec: Spec, schema: string, value: unknown): string | null {
  const validate = validator(spec, schema);
  if (validate(value)) return null;
  const [error] = validate.errors ?? [];
  return `${spec} ${schema}: ${error?.instancePath || '(top)'} ${error?.message ?? 'is not valid'} ${JSON.stringify(error?.params ?? {})}`;
}

/** The stream events in the Open Responses description, by `type`. */
export function openResponsesEvents(): Map<string, string> {
  const events = new Map<string, string>();
  for (const [name, schema] of Object.entries(document('openresponses').components.schemas)) {
    const type = (schema['properties'] as Record<string, Schema> | undefined)?.['type']?.['enum'] as
      | string[]
      | undefined;
    if (name.endsWith('StreamingEvent') && type?.[0] !== undefined) events.set(type[0], name);
  }
  return events;
}
