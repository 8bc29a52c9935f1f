// Tests that JSON keeps the digits of numbers that JavaScript cannot represent exactly, and the order of members.

import t from 'tap';
import {
  copyNotation,
  literalOf,
  memberNames,
  parseExact,
  spellingOf,
  stringifyAsWritten,
  stringifyExact,
  withMembers,
} from '../../src/shared/exact-json.js';

const again = (text: string): string => stringifyExact(parseExact(text));

t.test('numbers keep their digits wherever they occur', (t) => {
  for (const text of [
    '{"const":1234567890123456789}',
    '{"a":{"b":[9007199254740993,-9223372036854775808,1]}}',
    '[[175928847299117063],[{"x":18446744073709551615}]]',
    '{"a":0.12345678901234567891,"b":1.5,"c":12345678901234567.25}',
    '{"minimum":-9223372036854775808,"maximum":9223372036854775807,"note":"9223372036854775807"}',
    '{"__proto__":{"n":9007199254740993}}',
    '{"a\\"b":9007199254740993}',
    '{"":[[],{},9007199254740993]}',
    '[9007199254740993,"\\\\",9007199254740993]',
  ])
    t.equal(again(text), text);
  t.equal(again('{"\\u0041":9007199254740993}'), '{"A":9007199254740993}');
  t.equal(
    again(' { "a" :\n9007199254740993 , "b" : [ 9007199254740995 ] } '),
    '{"a":9007199254740993,"b":[9007199254740995]}',
  );
  t.end();
});

t.test('numbers that JavaScript represents exactly are written by JSON.stringify', (t) => {
  for (const [text, written] of [
    ['{"a":9007199254740992}', '{"a":9007199254740992}'],
    ['[1.0,1e3,0.50]', '[1,1000,0.5]'],
    ['[1000000000000000000000]', '[1e+21]'],
    ['[12345678901234500000]', '[12345678901234500000]'],
    ['[0.10000000000000000]', '[0.1]'],
    ['[-0.0000000000000000]', '[0]'],
  ] as const) {
    t.equal(again(text), written, text);
  }
  t.end();
});

t.test('stringifyAsWritten() keeps the spelling of every number, even in a copy with other names', (t) => {
  const text = '{"a":[1.0,1e3,0.50,-0.0,7],"b":{"c":9007199254740993,"d":"1.0"}}';
  const value = parseExact(text) as { a: number[]; b: { c: number } };
  t.equal(stringifyAsWritten(value), text);
  t.equal(spellingOf(value.a, '0'), '1.0');
  t.equal(literalOf(value.a, '0'), undefined);
  value.a[0] = 2;
  t.equal(stringifyAsWritten(value.a), '[2,1e3,0.50,-0.0,7]');
  const copy = { 'c!': value.b.c, 'd!': '1.0' };
  copyNotation(value.b, copy, (key) => `${key}!`);
  t.equal(stringifyAsWritten(copy), '{"c!":9007199254740993,"d!":"1.0"}');
  t.end();
});

t.test('members keep their order, also those named by integers', (t) => {
  for (const text of [
    '{"reason":1,"2025":2,"2024":3}',
    '{"b":{"10":{"x":1,"9":2},"a":[{"1":1,"0":2}]},"0":7}',
    '{"":1,"0":2,"-1":3,"01":4,"4294967295":5,"4294967294":6}',
    '{"__proto__":{"z":1,"1":2}}',
  ])
    t.equal(again(text), text);
  t.equal(again('{"a":1,"\\u0031":2}'), '{"a":1,"1":2}');
  t.equal(again('{"a":1,"1":2,"a":3}'), '{"a":3,"1":2}', 'a repeated name keeps its first place');
  t.equal(again('{"m":{"x":1,"1":2},"m":{"1":1,"x":2}}'), '{"m":{"1":1,"x":2}}');
  t.equal(again('{"m":{"1":1,"x":2},"m":{"x":1,"1":2}}'), '{"m":{"x":1,"1":2}}');
  t.equal(again('{"m":{"z":1,"1":2},"m":{"x":1,"1":2}}'), '{"m":{"x":1,"1":2}}');
  t.end();
});

t.test('a copy and a changed object keep the order of members', (t) => {
  const value = parseExact('{"z":1,"2":2,"1":3}') as Record<string, unknown>;
  t.same(memberNames(value), ['z', '2', '1']);
  t.equal(stringifyExact(withMembers(value, { y: 0, '0': 0 })), '{"z":1,"2":2,"1":3,"0":0,"y":0}');
  t.equal(stringifyExact(withMembers({ y: 0 }, value)), '{"y":0,"z":1,"2":2,"1":3}');
  const copy = Object.fromEntries(Object.entries(value).map(([name, item]) => [`${name}0`, item]));
  copyNotation(value, copy, (name) => `${name}0`);
  t.equal(stringifyExact(copy), '{"z0":1,"20":2,"10":3}');
  delete value['2'];
  value['0'] = 9;
  t.equal(stringifyExact(value), '{"z":1,"1":3,"0":9}');
  t.same(memberNames(JSON.parse('{"z":1,"1":2}') as object), ['1', 'z'], 'nothing is recorded');
  t.end();
});

t.test('if several members have the same name, the last member counts', (t) => {
  t.equal(again('{"a":9007199254740993,"a":1}'), '{"a":1}');
  t.equal(again('{"a":1,"a":9007199254740993}'), '{"a":9007199254740993}');
  t.equal(again('{"a":[9007199254740993,2],"a":{"0":5}}'), '{"a":{"0":5}}');
  t.equal(again('{"a":{"x":9007199254740993},"a":{"x":7}}'), '{"a":{"x":7}}');
  t.end();
});

t.test('a changed value is written as it is now, and a copy keeps the digits of its source', (t) => {
  const value = parseExact('{"n":9007199254740993,"m":9007199254740995}') as Record<string, unknown>;
  t.equal(literalOf(value, 'n'), '9007199254740993');
  value['n'] = 5;
  t.equal(stringifyExact(value), '{"n":5,"m":9007199254740995}');
  t.equal(stringifyExact(withMembers(value, { type: 'object' })), '{"n":5,"m":9007199254740995,"type":"object"}');
  t.equal(
    stringifyExact({ outer: value, at: new Date(0), gone: undefined, list: [undefined] }),
    '{"outer":{"n":5,"m":9007199254740995},"at":"1970-01-01T00:00:00.000Z","list":[null]}',
  );
  t.end();
});

t.test('random documents round-trip with all digits', (t) => {
  let state = 7;
  const random = (below: number): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff) % below;
  const digits = (): string =>
    `${random(2) === 0 ? '-' : ''}${1 + random(9)}${Array.from({ length: 14 + random(12) }, () => random(10)).join('')}${1 + random(9)}`;
  const make = (depth: number): string => {
    const kind = random(depth === 0 ? 3 : 5);
    if (kind === 0) return digits();
    if (kind === 1) return JSON.stringify(`${digits()}"\\${random(10)}`);
    if (kind === 2) return String(random(1_000));
    const inner = Array.from({ length: random(4) }, (_, index) =>
      kind === 3 ? make(depth - 1) : `"k${index}":${make(depth - 1)}`,
    );
    return kind === 3 ? `[${inner.join(',')}]` : `{${inner.join(',')}}`;
  };
  for (let round = 0; round < 2_000; round++) {
    const text = `[${make(4)}]`;
    if (again(text) !== text) t.fail(`${text} became ${again(text)}`);
  }
  t.pass();
  t.end();
});
