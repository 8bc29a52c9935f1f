// Tests that JSON written in slices equals the output of JSON.stringify().
import t from 'tap';
import { jsonSlices } from '../../src/http/json-slices.js';
import { JsonText } from '../../src/http/json-text.js';

const sliced = (value: unknown): { text: string; slices: number } => {
  const text = new JsonText();
  let slices = 0;
  for (const _ of jsonSlices(value, text)) slices++;
  return { text: text.toString(), slices };
};

t.test('plain data of any shape is written like JSON.stringify() does', (t) => {
  const deep = { a: { b: { c: { d: { e: { f: { g: [1, { h: undefined }] } } } } } } };
  for (const value of [
    null,
    1,
    -0,
    NaN,
    true,
    '',
    'é"\\\u2028\ud800',
    [],
    {},
    [undefined, [], {}],
    { a: undefined, b: 1 },
    { a: undefined },
    [[['x']]],
    deep,
    { '"': ['\n'] },
    Array.from({ length: 1_000 }, (_, at) => ({ at })),
  ]) {
    t.equal(sliced(value).text, JSON.stringify(value));
  }
  t.end();
});

t.test('long strings are split, but never within a character', (t) => {
  for (const text of [
    'x'.repeat(1_000_000),
    'a' + '😀'.repeat(300_000),
    '😀"'.repeat(100_000),
    '\ud83d'.repeat(300_000),
    '\u0000'.repeat(200_000),
  ]) {
    const { text: json, slices } = sliced({ item: [{ text }] });
    t.equal(json === JSON.stringify({ item: [{ text }] }), true);
    t.ok(slices >= Math.floor(text.length / 140_000), `${slices} slices`);
  }
  t.ok(sliced(Array.from({ length: 1_000 }, () => 'x'.repeat(1_000))).slices >= 10, 'lists are split');
  t.ok(
    sliced(Array.from({ length: 60 }, () => ({ content: [{ text: 'x'.repeat(131_000) }] }))).slices >= 60,
    'lists of strings below the length limit are split',
  );
  t.ok(
    sliced({ tools: [Object.fromEntries(Array.from({ length: 6_400 }, (_, at) => [`k${at}`, at]))] }).slices >= 100,
    'objects with many names are split',
  );
  t.end();
});
