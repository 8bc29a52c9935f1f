import t from 'tap';
import { MAX_JSON_DEPTH, MAX_JSON_MEMBERS, parseJsonBody } from '../../src/http/json.js';

const bytes = (text: string): Uint8Array => Buffer.from(text);
const members = (count: number): string => Array.from({ length: count }, (_, index) => `"k${index}":0`).join(',');

t.test('what is read as a body', async (t) => {
  t.same(parseJsonBody(bytes('\ufeff{"a":1}')), { a: 1 }, 'a byte-order mark is skipped');
  t.throws(() => parseJsonBody(bytes('[]')), { code: 'invalid_body' });
  t.throws(() => parseJsonBody(bytes('{"a":1e999}')), { code: 'invalid_json' });
  t.throws(() => parseJsonBody(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x30, 0x7d])), { code: 'invalid_json' });
  const nested = (depth: number): string => `${'{"a":'.repeat(depth)}0${'}'.repeat(depth)}`;
  t.ok(parseJsonBody(bytes(nested(MAX_JSON_DEPTH))));
  t.throws(() => parseJsonBody(bytes(nested(MAX_JSON_DEPTH + 1))), { code: 'invalid_json' });
});

t.test('members are counted before anything is parsed, and only members', async (t) => {
  t.ok(parseJsonBody(bytes(`{${members(1_000)}}`)));
  t.throws(() => parseJsonBody(bytes(`{${members(MAX_JSON_MEMBERS + 1)}}`)), { code: 'invalid_json', message: /members/ });
  const began = performance.now();
  const image = `{"a":"${':'.repeat(16_000_000)}","b":"${'\\":'.repeat(1_000_000)}\\\\","c":1}`;
  t.same(Object.keys(parseJsonBody(bytes(image))), ['a', 'b', 'c'], 'colons within strings are text');
  t.ok(performance.now() - began < 5_000);
});
