// Generates random schemas, and random texts that their grammars accept. Each text must be valid according to a
// separate validator (Ajv). Conversely, each grammar must accept values that are generated to be valid.
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import type { NativeGrammar } from '../../src/engine/addon-grammar-types.js';
import { loadStarter } from '../addon/starter.js';

type Json = Record<string, unknown>;
type Draw = (below: number) => number;

const engine = await loadStarter('grammar-fuzz');
t.teardown(() => engine.close());

/** A pseudorandom generator that returns the same numbers on every run. */
function drawOf(seed: number): Draw {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A schema, and a generator of values that are valid under it. */
interface Made {
  schema: Json;
  value(draw: Draw): unknown;
}

const LETTERS = ['a', 'b', 'z', '0', ' ', '"', '\\', '/', 'é', '水', '👋', '\n'];
const word = (draw: Draw, least: number, most: number): string =>
  Array.from({ length: least + draw(most - least + 1) }, () => LETTERS[draw(LETTERS.length)]).join('');
const pick = <T>(draw: Draw, of: readonly T[]): T => of[draw(of.length)] as T;

const PATTERNS: readonly [pattern: string, value: (draw: Draw) => string][] = [
  ['^[a-c]{2,4}$', (draw) => Array.from({ length: 2 + draw(3) }, () => pick(draw, ['a', 'b', 'c'])).join('')],
  ['^(foo|bar)-\\d+$', (draw) => `${pick(draw, ['foo', 'bar'])}-${draw(1_000)}`],
  ['^[A-ZÉ]\\w*$', (draw) => `${pick(draw, ['É', 'A', 'Z'])}${pick(draw, ['', 'a_9', 'zz'])}`],
];

function scalar(draw: Draw): Made {
  switch (draw(8)) {
    case 0:
      return { schema: { type: 'null' }, value: () => null };
    case 1:
      return { schema: { type: 'boolean' }, value: (d) => d(2) === 0 };
    case 2: {
      const minimum = draw(2_000) - 1_000,
        maximum = minimum + draw(500);
      return { schema: { type: 'integer', minimum, maximum }, value: (d) => minimum + d(maximum - minimum + 1) };
    }
    case 3: {
      const multipleOf = 1 + draw(9);
      return {
        schema: { type: 'integer', multipleOf, minimum: -99, maximum: 99 },
        value: (d) => (d(Math.floor(198 / multipleOf)) - Math.floor(99 / multipleOf)) * multipleOf,
      };
    }
    case 4: {
      const [pattern, value] = pick(draw, PATTERNS);
      return { schema: { type: 'string', pattern }, value };
    }
    case 5: {
      const minLength = draw(3),
        maxLength = minLength + draw(5);
      return { schema: { type: 'string', minLength, maxLength }, value: (d) => word(d, minLength, maxLength) };
    }
    case 6: {
      const values = [draw(100), word(draw, 0, 4), null, draw(2) === 0, { a: draw(9) }, [draw(9)], -0.25].filter(
        () => draw(2) === 0,
      );
      if (values.length === 0) values.push('only');
      return { schema: { enum: values }, value: (d) => pick(d, values) };
    }
    default: {
      const [format, example] = pick(draw, [
        ['date', '2024-02-29'],
        ['uuid', '123e4567-e89b-12d3-a456-426614174000'],
        ['ipv4', '10.0.0.255'],
        ['time', '23:59:59Z'],
        ['date-time', '2024-02-29T23:59:59Z'],
      ] as const);
      return { schema: { type: 'string', format, maxLength: 40 }, value: () => example };
    }
  }
}

function made(draw: Draw, depth: number): Made {
  const kind = depth === 0 ? 0 : draw(6);
  switch (kind) {
    case 1: {
      // an object
      const members = ['alpha', 'b c', 'é"', '', 'n']
        .filter(() => draw(2) === 0)
        .map((name) => ({ name, of: made(draw, depth - 1), required: draw(2) === 0 }));
      const schema: Json = {
        type: 'object',
        properties: Object.fromEntries(members.map(({ name, of }) => [name, of.schema])),
        required: members.filter(({ required }) => required).map(({ name }) => name),
        additionalProperties: false,
      };
      return {
        schema,
        value: (d) =>
          Object.fromEntries(
            members.filter(({ required }) => required || d(2) === 0).map(({ name, of }) => [name, of.value(d)]),
          ),
      };
    }
    case 2: {
      // an array
      const items = made(draw, depth - 1);
      const minItems = draw(2),
        maxItems = minItems + draw(3);
      return {
        schema: { type: 'array', items: items.schema, minItems, maxItems },
        value: (d) => Array.from({ length: minItems + d(maxItems - minItems + 1) }, () => items.value(d)),
      };
    }
    case 3: {
      // a union
      const parts = Array.from({ length: 2 + draw(2) }, () => made(draw, depth - 1));
      return { schema: { anyOf: parts.map(({ schema }) => schema) }, value: (d) => pick(d, parts).value(d) };
    }
    case 4: {
      // a reference; its target contains no outer references
      const part = made(draw, depth - 1);
      return { schema: { $ref: '#/$defs/part', $defs: { part: part.schema } }, value: part.value };
    }
    case 5: {
      // a tuple
      const parts = Array.from({ length: 1 + draw(3) }, () => made(draw, depth - 1));
      return {
        schema: { type: 'array', prefixItems: parts.map(({ schema }) => schema), minItems: parts.length, items: false },
        value: (d) => parts.map((part) => part.value(d)),
      };
    }
    default:
      return scalar(draw);
  }
}

/** References are resolved against the root of the whole schema, so inline the references in subschemas. */
function inlined(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(inlined);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { $ref, $defs, ...rest } = schema as { $ref?: string; $defs?: { part: unknown } };
  if ($ref !== undefined && $defs !== undefined) return inlined($defs.part);
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, key === 'enum' ? value : inlined(value)]));
}

const MAX_BYTES = 600;

/** Draws a text byte by byte, with a preference for closing characters; null if it grows too long. */
function sample(grammar: NativeGrammar, draw: Draw): Buffer | null {
  const text = Buffer.alloc(MAX_BYTES);
  for (let length = 0; length < MAX_BYTES; length++) {
    const next = grammar.follow(text.subarray(0, length));
    if (next === null || (next.bytes.length === 0 && !next.accepts))
      throw new Error(`nothing follows ${text.subarray(0, length).toString()}`);
    if (next.accepts && (next.bytes.length === 0 || draw(3) === 0)) return Buffer.from(text.subarray(0, length));
    const closing = next.bytes.filter((byte) => '"}],'.includes(String.fromCharCode(byte)));
    text[length] = pick(draw, [...(closing.length > 0 && draw(3) === 0 ? closing : next.bytes)]);
  }
  return null;
}

const COUNT = 400;

t.test(`${COUNT} random schemas accept exactly the texts that Ajv accepts`, { timeout: 110_000 }, async (t) => {
  const ajv = new Ajv2020({ strict: false, validateSchema: false });
  (addFormats as unknown as (to: Ajv2020) => void)(ajv);
  let samples = 0,
    long = 0,
    instances = 0,
    refused = 0;
  const faults: string[] = [];
  for (let seed = 0; seed < COUNT; seed++) {
    const draw = drawOf(seed * 7_919 + 17);
    const { schema: drawn, value } = made(draw, 3);
    const schema =
      drawn['$ref'] === undefined
        ? (inlined(drawn) as Json)
        : { $ref: '#/$defs/part', $defs: { part: inlined((drawn['$defs'] as { part: Json }).part) } };
    const text = JSON.stringify(schema);
    const { grammar, problems } = await engine.compileGrammar({
      kind: 'json_schema',
      schema: text,
      strict: true,
      oneOfAsAnyOf: true,
      order: 'any',
      whiteSpace: seed % 2 === 0 ? 'none' : 'flexible',
    });
    if (grammar === null) {
      refused++;
      faults.push(`refused: ${problems.at(-1)?.what}: ${text}`);
      continue;
    }
    const validate = ajv.compile(JSON.parse(text) as Json);
    for (let at = 0; at < 6; at++) {
      const sampled = sample(grammar, draw);
      if (sampled === null) {
        long++;
        continue;
      }
      samples++;
      try {
        if (!validate(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(sampled))))
          faults.push(`let through: ${sampled.toString()} under ${text}: ${ajv.errorsText(validate.errors)}`);
      } catch (error) {
        faults.push(`${String(error)}: ${sampled.toString()} under ${text}`);
      }
    }
    for (let at = 0; at < 6; at++) {
      const instance = value(draw);
      const written = JSON.stringify(instance);
      if (!validate(instance)) throw new Error(`the value generator made an invalid value: ${written} under ${text}`);
      instances++;
      if (grammar.follow(Buffer.from(written))?.accepts !== true) faults.push(`refused: ${written} under ${text}`);
    }
  }
  t.comment(`${samples} samples (${long} grew too long), ${instances} instances, ${refused} schemas refused`);
  t.same(faults.slice(0, 10), []);
  t.ok(samples > 3 * COUNT, `${samples} samples`);
});
