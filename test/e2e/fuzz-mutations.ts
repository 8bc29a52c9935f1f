// Mutations of request bodies: values of the wrong type anywhere in the body, and bytes that are not JSON.
import type { Random } from '../support/random.js';

/** Values to put anywhere in a JSON document. Each value is created when it is used, because some values are large. */
const VALUES: readonly (() => unknown)[] = [
  () => null,
  () => true,
  () => false,
  () => 0,
  () => -1,
  () => 1.5,
  () => 1e308,
  () => -(2 ** 63),
  () => 2 ** 53 + 2,
  () => 5e-324,
  () => '',
  () => 'x',
  () => '0',
  () => 'x'.repeat(5_000),
  () => '\ud800',
  () => 'a\udfff\u0000b',
  () => '<|im_end|>',
  () => '__proto__',
  () => '😀'.repeat(300),
  () => [],
  () => [[]],
  () => [null],
  () => ['x'],
  () => new Array(300).fill(0),
  () => new Array(4_000).fill({ type: 'text' }),
  () => ({}),
  () => ({ type: 'strange' }),
  () => ({ a: { b: { c: [] } } }),
  () => JSON.parse('{"__proto__":{"type":"text"},"constructor":1}') as unknown,
  () => Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`k${index}`, index])),
  () => nested(200),
  () => ({ ['k'.repeat(10_000)]: 1 }),
];

const KEYS = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'x'.repeat(300),
  '\ud800',
  'type',
  'role',
  'id',
];

export function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

type Container = Record<string, unknown> | unknown[];

/** Returns every object and array inside a value, starting with the value itself. */
function containers(value: unknown, found: Container[] = []): Container[] {
  if (typeof value !== 'object' || value === null) return found;
  found.push(value as Container);
  for (const inner of Object.values(value)) containers(inner, found);
  return found;
}

/**
 * Returns a copy with one to three mutations: a value replaced, a key removed or added, or an array entry duplicated.
 */
export function spoilt(random: Random, body: object): object {
  const copy = structuredClone(body) as Record<string, unknown>;
  const places = containers(copy); // only the original body's containers, not those in inserted values
  for (let times = 1 + (random.below(5) % 3); times > 0; times--) {
    const place = random.pick(places);
    const keys = Object.keys(place);
    const key = random.pick(keys);
    const kind = random.below(10);
    if (kind === 0 || keys.length === 0) define(place, random.pick(KEYS), random.pick(VALUES)());
    else if (kind === 1) Array.isArray(place) ? place.splice(Number(key), 1) : delete place[key as string];
    else if (kind === 2 && Array.isArray(place)) place.push(structuredClone(place[Number(key)]));
    else define(place, key as string, random.pick(VALUES)());
  }
  return copy;
}

/** Sets an entry or a property. As in JSON.parse, a key named __proto__ becomes an ordinary property. */
function define(place: Container, key: string, value: unknown): void {
  if (Array.isArray(place)) place[Number(key) || 0] = value;
  else Object.defineProperty(place, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Returns the body's JSON with corrupted bytes, which is usually not valid JSON. */
export function garbled(random: Random, body: object): Buffer {
  const bytes = Buffer.from(JSON.stringify(body));
  const at = random.below(bytes.length);
  switch (random.below(12)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([
        bytes.subarray(0, at),
        Buffer.from([random.pick([0xff, 0xc0, 0xf5, 0x80, 0xed])]),
        bytes.subarray(at),
      ]);
    case 2:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([random.below(32)]), bytes.subarray(at)]);
    case 3:
      return Buffer.concat([
        bytes.subarray(0, at),
        Buffer.from(random.pick(['{', '}', '[', ']', ',', ':', '"', '\\', '1e999', 'NaN'])),
        bytes.subarray(at),
      ]);
    case 4:
      return Buffer.from(`${'['.repeat(1 + random.below(100_000))}`);
    case 5:
      return Buffer.from(`{"a":${'['.repeat(600)}${']'.repeat(600)}}`);
    case 6:
      return Buffer.from(
        random.pick([
          '',
          ' ',
          'null',
          '[]',
          '"x"',
          '1',
          'true',
          '{',
          '{}',
          '{}{}',
          '\ufeff',
          '\ufeff{}',
          '{"model":}',
          "{'a':1}",
          '{"a":1,}',
          '{"a":1e999}',
          '\u0000',
        ]),
      );
    case 7:
      return Buffer.concat([bytes, bytes]);
    case 8:
      return Buffer.from(JSON.stringify(body), 'utf16le');
    case 9:
      return Buffer.from(JSON.stringify(body).replace(/:/g, (colon) => (random.below(4) === 0 ? '=' : colon)));
    case 10:
      return Buffer.from(Uint8Array.from({ length: 1 + random.below(400) }, () => random.below(256)));
    default:
      return Buffer.from(`{"model":${'{"a":'.repeat(50_000)}`);
  }
}
