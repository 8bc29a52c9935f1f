// Tests reading workload files: the requests in valid files, and the errors with line numbers for invalid files.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { readBurstGpt } from '../../src/bench/load/files/burst-gpt.js';
import { jsonElements } from '../../src/bench/load/files/json-elements.js';
import { readMooncake } from '../../src/bench/load/files/mooncake.js';
import { readShareGpt } from '../../src/bench/load/files/share-gpt.js';
import { WORDS } from '../../src/bench/load/text-maker.js';
import { openWorkload } from '../../src/bench/load/workload.js';

const folder = mkdtempSync(join(tmpdir(), 'monolith-loads-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

function file(text: string): string {
  const path = join(folder, 'load');
  writeFileSync(path, text);
  return path;
}
const fails = async (t: Test, read: (path: string) => Promise<unknown>, text: string, said: RegExp): Promise<void> => {
  await t.rejects(read(file(text)), { name: 'LoadError', message: said }, text.slice(0, 60));
};

t.test('Mooncake: equal block hashes give equal prompt text', async (t) => {
  const rows = await readMooncake(
    file(
      [
        '{"timestamp": 27482, "input_length": 1030, "output_length": 52, "hash_ids": [46, 47, 2366]}',
        '',
        '{"timestamp": 27000, "input_length": 600, "output_length": 0, "hash_ids": [46, 48]}',
        '{"timestamp": 27500.5, "input_length": 1024, "output_length": 9, "hash_ids": [46, 47], "extra": true}',
      ].join('\r\n'),
    ),
  );
  t.match(rows, [
    { at: 0, promptTokens: 600, outputTokens: 1, blocks: [46, 48] },
    { at: 482, promptTokens: 1030 },
    { at: 500.5, blocks: [46, 47] },
  ]);
  const measure = { tokens: WORDS.map(() => 1), overhead: 4, exact: true };
  const workload = openWorkload({ kind: 'trace', rows, blockTokens: 512, seed: 1, schema: null }, measure);
  const [first, second, third] = [0, 1, 2].map((n) => workload.session(n)?.turns[0]?.text ?? '');
  const words = (text: string | undefined = ''): string[] => text.trim().split(' ');
  t.same(
    [words(first).length, words(second).length, words(third).length],
    [596, 1026, 1020],
    'the prompts leave room for the template',
  );
  t.same(words(first).slice(0, 512), words(second).slice(0, 512));
  t.same(words(second).slice(0, 1020), words(third));
  t.notSame(words(first).slice(512, 560), words(second).slice(512, 560));
  t.equal(workload.session(3), null);
  await fails(
    t,
    readMooncake,
    '{"timestamp":1,"input_length":1,"output_length":1}\n{"timestamp":1,',
    /load:2: is not valid JSON/,
  );
  await fails(t, readMooncake, '\n\n[1]', /load:3: is not a JSON object/);
  await fails(t, readMooncake, '{"timestamp":1,"output_length":1}', /load:1: input_length is missing/);
  await fails(
    t,
    readMooncake,
    '{"timestamp":1,"input_length":-4,"output_length":1}',
    /load:1: input_length is -4, not a number from 0/,
  );
  await fails(
    t,
    readMooncake,
    '{"timestamp":1,"input_length":4,"output_length":1,"hash_ids":["a"]}',
    /hash_ids must be a list/,
  );
  await fails(t, readMooncake, '', /has no requests/);
  await t.rejects(readMooncake(join(folder, 'absent')), { name: 'LoadError', message: /absent: does not exist/ });
  await t.rejects(readMooncake(folder), { name: 'LoadError', message: /is a folder/ });
});

t.test('BurstGPT: reads requests and skips those without a response', async (t) => {
  const head = 'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type';
  const { rows, left } = await readBurstGpt(
    file(
      `${head}\n5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n`,
    ),
  );
  t.same(
    { rows, left },
    {
      rows: [
        { at: 0, promptTokens: 472, outputTokens: 18 },
        { at: 113_000, promptTokens: 417, outputTokens: 276 },
      ],
      left: 1,
    },
  );
  await fails(t, readBurstGpt, 'Timestamp,Model\n5,x', /load:1: the header has no column "Request tokens"/);
  await fails(
    t,
    readBurstGpt,
    `${head}\n5,ChatGPT,472,18,490,x\n6,ChatGPT,many,18,490,x`,
    /load:3: Request tokens is "many", not a number/,
  );
  await fails(t, readBurstGpt, `${head}\n5,ChatGPT`, /load:2: has no Request tokens/);
  await fails(t, readBurstGpt, `${head}\n`, /has no requests with a response/);
});

t.test('ShareGPT: reads a JSON list or JSON lines, wherever the file is split into chunks', async (t) => {
  const options = { turns: 2, most: 10, outputTokens: null, thinkMs: 5 };
  const long = 'x'.repeat(70_000);
  const conversations = [
    {
      id: 'a',
      conversations: [
        { from: 'human', value: 'Hi "}] \\' },
        { from: 'gpt', value: 'twelve chars' },
        { from: 'human', value: long },
        { from: 'gpt', value: 'yes' },
        { from: 'human', value: 'c' },
        { from: 'gpt', value: 'd' },
      ],
    },
    { id: 'b', conversations: [{ from: 'gpt', value: 'begins with an answer' }] },
    {
      messages: [
        { role: 'system', content: 'S' },
        { role: 'user', content: 'Ü' },
        { role: 'assistant', content: 'ja' },
      ],
    },
  ];
  for (const text of [
    JSON.stringify(conversations),
    JSON.stringify(conversations, null, 2),
    conversations.map((one) => JSON.stringify(one)).join('\n'),
  ]) {
    const sessions = await readShareGpt(file(text), options);
    t.match(sessions, [
      {
        system: null,
        turns: [
          { text: 'Hi "}] \\', maxTokens: 3, thinkMs: 0 },
          { text: long, maxTokens: 1, thinkMs: 5 },
        ],
      },
      { system: 'S', turns: [{ text: 'Ü', maxTokens: 1 }] },
    ]);
    t.same(
      sessions.map(({ turns }) => turns.length),
      [2, 1],
    );
  }
  t.equal(
    (await readShareGpt(file(JSON.stringify(conversations)), { ...options, most: 1, outputTokens: 7 }))[0]?.turns[0]
      ?.maxTokens,
    7,
  );
  const read = (path: string): Promise<unknown> => readShareGpt(path, options);
  await fails(t, read, '[{"conversations":[]},\n{"x":1}]', /load:2: has neither "conversations" nor "messages"/);
  await fails(t, read, '[{"conversations":[{"from":"human"}]}]', /load:1: message 1 of the conversation has no/);
  await fails(
    t,
    read,
    '[{"conversations":[]},\n{"conversations":[',
    /load:2: the element that begins here is not closed/,
  );
  await fails(t, read, '{"conversations":[}\n', /load:1: the element that begins here is not closed/);
  await fails(t, read, 'id,text\n1,2', /load:1: is neither a JSON list nor JSON lines/);
  await fails(t, read, '[]', /has no conversation/);
  await fails(t, read, ']', /load:1: has an unmatched closing bracket|has no/);
  const found: unknown[] = [];
  for await (const { line, value } of jsonElements(file('\n[ [1,\n2],\n {"a":[{}]} ]\n'))) found.push([line, value]);
  t.same(found, [
    [2, [1, 2]],
    [4, { a: [{}] }],
  ]);
});
