import t from 'tap';
import { At, JsonScanner } from '../../../src/generation/local/tools/json-scanner.js';

/** Returns how much of the text the scanner consumes, and whether that is a complete object. */
function scan(text: string): { taken: number; done: boolean } {
  const scanner = new JsonScanner();
  let taken = 0;
  while (taken < text.length && scanner.at !== At.Done && scanner.accept(text.charCodeAt(taken))) taken++;
  return { taken, done: scanner.at === At.Done };
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

t.test('accepts what JSON.parse accepts', async (t) => {
  const whole = [
    '{}',
    ' {\n} ',
    '{"a":1}',
    '{"a":-0.0e-1,"b":1E+2,"c":[],"d":[1,[2]],"e":{"f":null},"g":true,"h":false,"":""}',
    '{"a":"\\u00e9\\"\\\\\\/\\b\\f\\n\\r\\t 日本\u007f\u2028"}',
    '{"a" : 0 , "b" : [ 1 , 2 ] }',
  ];
  t.same(
    whole.filter((text) => !scan(text.trimEnd()).done || !isObject(text)),
    [],
  );
  const broken = [
    '[]',
    '1',
    '"a"',
    '{a:1}',
    "{'a':1}",
    '{"a":01}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":+1}',
    '{"a":1e}',
    '{"a":-}',
    '{"a":tru}',
    '{"a":nul1}',
    '{"a" 1}',
    '{"a":1,}',
    '{,}',
    '{"a":[1,]}',
    '{"a":[,]}',
    '{"a":"\n"}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":[1}',
    '{"a":{]}',
    '{"a"}',
    '{1:2}',
    '{"a":1 2}',
    '{"a":NaN}',
  ];
  t.same(
    broken.filter((text) => scan(text).done || isObject(text)),
    [],
  );
  const deep = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`;
  t.ok(scan(deep(128)).done);
  t.notOk(scan(deep(129)).done, 'the object is nested too deeply');
});

t.test(
  'consumes damaged JSON only up to a point from which it could still be completed, and all of it only if it is valid',
  async (t) => {
    let state = 11;
    const random = (below: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const seed = '{"a": [1, -2.5e3, {"b": "x\\n\\u0041"}, true, null], "c": {"d": false}, "e": 0}';
    const alphabet = '{}[]",:\\ 0123456789+-.eEtrufalsn\n/';
    const wrong: string[] = [];
    for (let round = 0; round < 20_000; round++) {
      let text = seed;
      for (let edits = 1 + random(3); edits > 0; edits--) {
        const at = random(text.length + 1);
        text = text.slice(0, at) + (alphabet[random(alphabet.length)] ?? '') + text.slice(at + random(2));
      }
      const { taken, done } = scan(text);
      // The scanner stops after the closing brace, whereas JSON.parse continues.
      if (done ? !isObject(text.slice(0, taken)) : isObject(text)) wrong.push(text);
    }
    t.same(wrong, []);
  },
);
