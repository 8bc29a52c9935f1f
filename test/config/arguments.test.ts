// Tests splitting command lines into flags and words.

import t, { type Test } from 'tap';
import { asksForHelp, noWords, ownArguments, readArguments } from '../../src/config/arguments.js';
import type { Flag } from '../../src/config/arguments.js';

const KNOWN = new Map<string, Flag>([
  ['--name', { kind: 'value' }],
  ['--header', { kind: 'values' }],
  ['--json', { kind: 'switch' }],
  ['--public', { kind: 'boolean', target: 'public' }],
  ['--no-public', { kind: 'switch', target: 'public', isHidden: true }],
  ['--publics', { kind: 'value', isHidden: true }],
]);

/** Returns flags as [name, value], and words. */
const read = (...argv: string[]): unknown[] => {
  const { flags, words } = readArguments(argv, KNOWN);
  return [...flags.map(({ name, value }) => [name, value]), ...words];
};
const refuses = (test: Test, argv: string[], message: string): void => {
  test.throws(() => readArguments(argv, KNOWN), { name: 'UsageError', message }, argv.join(' '));
};

t.test('reads values after a space or an equals sign, and words', async (t) => {
  t.same(read(), []);
  t.same(read('a', '--name', 'x', 'b', ''), [['--name', 'x'], 'a', 'b', '']);
  t.same(read('--name=y=z', '-'), [['--name', 'y=z'], '-']);
  t.same(read('--name='), [['--name', '']]);
  t.same(read('--name', '-1'), [['--name', '-1']]);
  t.same(read('--name', '--else'), [['--name', '--else']], 'a value may start with dashes if it is not a known flag');
  t.same(read('--name=--json'), [['--name', '--json']]);
  t.same(read('--json', 'x'), [['--json', null], 'x']);
  t.same(read('--header', 'a', '--json', '--header=b'), [
    ['--header', 'a'],
    ['--json', null],
    ['--header', 'b'],
  ]);
});

t.test('-- ends the flags', async (t) => {
  t.same(read('--json', '--', '--name', '--', '-x'), [['--json', null], '--name', '--', '-x']);
  t.same(read('--public', '--', 'off'), [['--public', null], 'off']);
});

t.test('an optional value is taken only if it is a boolean', async (t) => {
  t.same(read('--public', 'off', 'x'), [['--public', 'off'], 'x']);
  t.same(read('--public', 'OFF'), [['--public', 'OFF']]);
  t.same(read('--public', 'x'), [['--public', null], 'x']);
  t.same(read('--public=x'), [['--public', 'x']], 'a value in the same argument is checked by the caller');
  t.same(read('off', '--public'), [['--public', null], 'off']);
  t.same(read('--public', '--json', 'off'), [['--public', null], ['--json', null], 'off']);
});

t.test('errors name the flag', async (t) => {
  refuses(t, ['--nane', 'x'], '--nane: unknown flag. Did you mean --name?');
  refuses(t, ['--nane=x'], '--nane: unknown flag. Did you mean --name?');
  refuses(t, ['--hel'], '--hel: unknown flag. Did you mean --help?');
  refuses(t, ['--publicsx'], '--publicsx: unknown flag. Did you mean --public?');
  refuses(t, ['--constructor'], '--constructor: unknown flag.');
  refuses(t, ['--__proto__'], '--__proto__: unknown flag.');
  refuses(t, ['-xyz'], '-xyz: unknown flag.');
  refuses(t, ['--name'], '--name: requires a value.');
  refuses(t, ['--name', '--json'], '--name: requires a value.');
  refuses(t, ['--name', '--header=x'], '--name: requires a value.');
  refuses(t, ['--name', '--', 'x'], '--name: requires a value.');
  refuses(t, ['--header', '--name', 'x'], '--header: requires a value.');
  refuses(t, ['--json=x'], '--json: does not take a value.');
  refuses(t, ['--no-public=x'], '--no-public: does not take a value.');
  refuses(t, ['--name', 'a', '--name=b'], '--name: must not be repeated.');
  refuses(t, ['--json', '--json'], '--json: must not be repeated.');
  refuses(
    t,
    ['--public', 'on', '--no-public'],
    '--no-public: cannot be combined with --public, which sets the same value.',
  );
  t.throws(() => noWords(['a', 'b']), { name: 'UsageError', message: 'unexpected argument "a"' });
  t.doesNotThrow(() => noWords([]));
});

t.test('selects the flags of one command', async (t) => {
  const given = readArguments(['--header', 'a', '--json', '--name', 'x', 'w', '--header', 'b'], KNOWN);
  const { values, lists, words } = ownArguments(given, { '--header': 'values', '--json': 'switch' });
  t.same(
    [...lists],
    [
      ['--header', ['a', 'b']],
      ['--json', ['']],
    ],
  );
  t.same(
    [...values],
    [
      ['--header', 'b'],
      ['--json', ''],
    ],
  );
  t.same(words, ['w']);
});

t.test('finds --help and -h only before --', async (t) => {
  t.ok(asksForHelp(['a', '--help']));
  t.ok(asksForHelp(['-h', '--', 'a']));
  t.notOk(asksForHelp(['a', '--', '--help']));
  t.notOk(asksForHelp(['--help=x', '-help']));
});
