import t from 'tap';
import { MAX_JSON_DEPTH, MAX_JSON_MEMBERS, MAX_JSON_VALUES, parseJsonBody } from '../../src/http/json.js';
import { cpuTime } from '../support/cpu-time.js';

const MIB = 1024 * 1024;
const bytes = (text: string): Uint8Array => Buffer.from(text);
const members = (count: number): string => Array.from({ length: count }, (_, index) => `"k${index}":0`).join(',');
const full = (text: string): string => text.repeat(Math.floor((32 * MIB - 100) / text.length));

t.test('valid JSON objects are parsed and other bodies are refused', async (t) => {
  t.same(parseJsonBody(bytes('\ufeff{"a":1}')), { a: 1 }, 'a byte-order mark is skipped');
  t.same(
    parseJsonBody(new Uint8Array(bytes('{"a":[true,false,null,1e3,1E+2,2e-400,"1e999","\\"","\\\\",{"e":"é"}]}'))),
    { a: [true, false, null, 1000, 100, 0, '1e999', '"', '\\', { e: 'é' }] },
  );
  t.throws(() => parseJsonBody(bytes('[]')), { code: 'invalid_body' });
  t.throws(() => parseJsonBody(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x30, 0x7d])), { code: 'invalid_json' });
  for (const [text, code] of [
    ['', 'invalid_body'],
    [' ', 'invalid_body'],
    ['"', 'invalid_json'],
    ['{"', 'invalid_json'],
    ['{"a":"\\"}', 'invalid_json'],
    ['}]', 'invalid_json'],
  ] as const) {
    t.throws(() => parseJsonBody(bytes(text)), { code }, text);
  }
});

t.test('numbers that are not finite are refused', async (t) => {
  const digits = (count: number): string => '9'.repeat(count);
  for (const text of [
    '{"a":1e999}',
    '{"a":-1E309 }',
    '{"a":[0,1e+400,0]}',
    `{"a":${digits(400)}}`,
    `{"a":${digits(299)}e99}`,
    '{"a":{"b":"1","c":2e308}}',
  ]) {
    t.throws(() => parseJsonBody(bytes(text)), { code: 'invalid_json', message: /not finite/ }, text.slice(0, 30));
  }
  t.same(parseJsonBody(bytes(`{"a":1.7e308,"b":${'0.'}${digits(400)},"c":"${digits(400)}"${' '.repeat(400)}}`)), {
    a: 1.7e308,
    b: 1,
    c: digits(400),
  });
});

t.test('nesting, values and members are limited before parsing, ignoring string contents', async (t) => {
  const nested = (depth: number): string => `${'{"a":'.repeat(depth)}0${'}'.repeat(depth)}`;
  t.ok(parseJsonBody(bytes(nested(MAX_JSON_DEPTH))));
  t.throws(() => parseJsonBody(bytes(nested(MAX_JSON_DEPTH + 1))), {
    code: 'invalid_json',
    message: /deeper than 512/,
  });
  t.ok(parseJsonBody(bytes(`{${members(1_000)}}`)));
  t.throws(() => parseJsonBody(bytes(`{${members(MAX_JSON_MEMBERS + 1)}}`)), {
    code: 'invalid_json',
    message: /members/,
  });
  t.ok(
    parseJsonBody(bytes(`{"a":[${'0,'.repeat(MAX_JSON_VALUES - 2)}0]}`)),
    'the maximum number of values is accepted',
  );
  t.throws(() => parseJsonBody(bytes(`{"a":[${'0,'.repeat(MAX_JSON_VALUES - 1)}0]}`)), {
    code: 'invalid_json',
    message: /values/,
  });
  t.throws(
    () => parseJsonBody(bytes(`{"a":${'['.repeat(600)}`), 'message'),
    { message: /^The message is nested/ },
    "the message uses the caller's name for the body",
  );

  const text = `{"a":"${':,[{'.repeat(4_000_000)}","b":"${'\\":'.repeat(1_000_000)}\\\\","c":1}`;
  t.same(Object.keys(parseJsonBody(bytes(text))), ['a', 'b', 'c'], 'string contents are not counted');
});

t.test('32 MiB of any content are parsed or refused quickly', async (t) => {
  // Without the checks before parsing, each of these bodies took 5 to 18 seconds or crashed the process. The time limit
  // allows for a busy machine.
  const shapes: Record<string, [body: () => string, message: RegExp | null]> = {
    'empty objects': [() => `{"a":[${full('{},')}{}]}`, /values/],
    'empty arrays': [() => `{"a":[${full('[],')}[]]}`, /values/],
    'arrays in arrays': [() => `{"a":${'['.repeat(16 * MIB)}${']'.repeat(16 * MIB)}}`, /deeper/],
    'nested as deep as allowed, again and again': [
      () => `{"a":[${full(`${'['.repeat(250)}${']'.repeat(250)},`)}0]}`,
      /values/,
    ],
    numbers: [() => `{"a":[${full('1,')}1]}`, /values/],
    'numbers with exponents': [() => `{"a":[${full('1e9,')}1]}`, /values/],
    'one number': [() => `{"a":${full('1')}}`, /not finite/],
    'short strings': [() => `{"a":[${full('"",')}1]}`, /values/],
    quotes: [() => `{"a":${full('"')}}`, /not valid JSON/],
    'strings without commas': [() => `{"a":[${full('"abc"')}]}`, /not valid JSON/],
    'escaped quotes': [() => `{"a":"${full('\\"')}"}`, null],
    'escaped quotes far apart': [() => `{"a":"${full(`${'x'.repeat(70)}\\"`)}"}`, null],
    backslashes: [() => `{"a":"${full('\\\\')}"}`, null],
    'backslashes before quotes': [() => `{"a":"${full(`${'\\'.repeat(101)}"`)}"}`, null],
    spaces: [() => `{"a":${full(' ')}1}`, null],
    'one string': [() => `{"a":"${full('x')}"}`, null],
  };
  for (const [name, [text, message]] of Object.entries(shapes)) {
    const body = bytes(text());
    const spent = cpuTime();
    let told = '';
    try {
      parseJsonBody(body);
    } catch (error) {
      told = (error as Error).message;
    }
    const ms = spent();
    t.ok(ms < 2_500, `${name}: ${ms.toFixed()} ms`);
    if (message === null) t.equal(told, '', name);
    else t.match(told, message, name);
  }
});
