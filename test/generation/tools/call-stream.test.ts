import t from 'tap';
import { CallStream } from '../../../src/generation/local/tools/call-stream.js';
import type { ToolSyntax } from '../../../src/generation/local/tools/syntax.js';
import { cpuTime } from '../../support/cpu-time.js';
import { fixtures, tools, type Told } from './call-fixtures.js';

/**
 * Returns the joined events for the given pieces. Checks that the events are in order and that complete arguments are
 * valid JSON.
 */
function read(syntax: ToolSyntax, pieces: readonly string[], cut: boolean): Told[] {
  const told: Told[] = [];
  let open: { name: string; text: string } | null = null;
  let over = false;
  const stream = new CallStream(syntax, tools, {
    started(name) {
      if (open !== null || over) throw new Error('a call started within a call, or after the end');
      open = { name, text: '' };
    },
    arguments(text) {
      if (open === null || text === '' || over) throw new Error('arguments without a call, or empty');
      open.text += text;
    },
    finished(complete) {
      if (open === null) throw new Error('finished without a start');
      if (complete) JSON.parse(open.text);
      told.push(`${complete ? 'call' : 'cut'} ${open.name} ${open.text}`);
      open = null;
      over = !complete;
    },
    text(text) {
      if (open !== null || text === '') throw new Error('text within a call, or empty');
      const last = told.at(-1);
      if (last?.startsWith('text ') === true) told[told.length - 1] = last + text;
      else told.push(`text ${text}`);
    },
  });
  for (const piece of pieces) stream.push(piece);
  stream.end(!cut);
  if (open !== null) throw new Error('a call was left open');
  return told;
}

/** Joins adjacent texts. choice-events handles the whitespace at their edges. */
function joined(told: readonly Told[]): Told[] {
  const result: Told[] = [];
  for (const one of told) {
    const last = result.at(-1);
    if (one.startsWith('text ') && last?.startsWith('text ') === true) result[result.length - 1] = last + one.slice(5);
    else result.push(one);
  }
  return result.map((one) => one.replace(/^text\s*/, 'text ').replace(/\s+$/, ''));
}

const spaceless = (told: readonly Told[]): Told[] =>
  told.map((one) => (one.startsWith('text ') ? `text ${one.slice(5).replaceAll(/\s/g, '')}` : one));

t.test('parses every fixture at every split', async (t) => {
  for (const { name, syntax, text, told, cut = false } of fixtures) {
    const label = `${syntax.name}: ${name}`;
    const whole = read(syntax, [text], cut);
    t.same(spaceless(joined(whole)), spaceless(joined(told)), label);
    t.same(
      read(
        syntax,
        [...text].flatMap((character) => character.split('')),
        cut,
      ),
      whole,
      `${label}, character by character`,
    );
    const different: number[] = [];
    for (let at = 1; at < text.length; at++) {
      const split = read(syntax, [text.slice(0, at), text.slice(at)], cut);
      if (JSON.stringify(split) !== JSON.stringify(whole)) different.push(at);
    }
    t.same(different, [], `${label}, split in two`);
  }
});

/** A small seeded generator, so that failures are reproducible. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

t.test('damaged texts never throw, and give the same result at every split', async (t) => {
  const random = randomOf(7);
  const alphabet = [
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\',
    ':',
    ',',
    ' ',
    '\n',
    'a',
    '1',
    '-',
    '.',
    'e',
    'u',
    '<',
    '>',
    '/',
    '=',
    '\ud83d',
    'é',
    '<tool_call>',
    '</tool_call>',
    '[TOOL_CALLS]',
    '[ARGS]',
    '"name": "f"',
    '"arguments": {',
    '<parameter=x>',
    '</parameter>',
    '<arg_key>',
    '</arg_value>',
    '<|"|>',
    '(',
    ')',
    "'",
    '<|tool_call_end|>',
    '｜',
    '<|message|>',
  ];
  let different = '';
  for (let round = 0; round < 6_000 && different === ''; round++) {
    const { syntax, text } = fixtures[random(fixtures.length)]!;
    let damaged = text;
    for (let edits = 1 + random(3); edits > 0; edits--) {
      const at = random(damaged.length + 1);
      damaged = damaged.slice(0, at) + alphabet[random(alphabet.length)]! + damaged.slice(at + random(4));
    }
    const pieces: string[] = [];
    for (let at = 0; at < damaged.length; ) {
      const length = 1 + random(9);
      pieces.push(damaged.slice(at, at + length));
      at += length;
    }
    const cut = random(2) === 0;
    if (JSON.stringify(read(syntax, pieces, cut)) !== JSON.stringify(read(syntax, [damaged], cut))) different = damaged;
  }
  t.equal(different, '');
});

t.test('a very long call costs no more per character than a short one', async (t) => {
  for (const { syntax, head, piece, tail } of [
    {
      syntax: fixtures.find(({ syntax }) => syntax.name === 'hermes')!.syntax,
      head: '<tool_call>\n{"name": "f", "arguments": {"x": "',
      piece: 'abcd',
      tail: '"}}',
    },
    {
      syntax: fixtures.find(({ syntax }) => syntax.name === 'xml')!.syntax,
      head: '<tool_call><function=get_weather><parameter=filter>["',
      piece: 'abcd',
      tail: '"]</parameter></function>',
    },
    {
      syntax: fixtures.find(({ syntax }) => syntax.name === 'llama')!.syntax,
      head: '{"parameters": {"x": "',
      piece: 'abcd',
      tail: '"}, "name": "f"}',
    },
  ]) {
    const spent = cpuTime();
    const told = read(syntax, [head, ...Array<string>(60_000).fill(piece), tail], false);
    t.equal(told.length, 1);
    t.match(told[0], /^call /);
    t.ok(spent() < 3_000, `${syntax.name} in ${spent().toFixed()} ms`);
  }
});
