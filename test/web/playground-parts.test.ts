// Tests page modules without a browser: streamed playground responses, requests, generated code, Markdown, and the
// operator's limit fields.
import { spawnSync } from 'node:child_process';
import { test } from 'tap';
import { failed, received, sent, stopped, timing, ended } from '../../src/dashboard/web/src/playground/chat-stream.js';
import type { Answer } from '../../src/dashboard/web/src/playground/chat-stream.js';
import type { ChatBody } from '../../src/dashboard/web/src/playground/chat-wire.js';
import { codeFor, LANGUAGES, pythonOf, scriptOf } from '../../src/dashboard/web/src/playground/code.js';
import { beforeLastAnswer, messagesOf, openCalls } from '../../src/dashboard/web/src/playground/conversation.js';
import type { AnswerTurn, Turn } from '../../src/dashboard/web/src/playground/conversation.js';
import { Dialogue } from '../../src/dashboard/web/src/playground/dialogue.js';
import { draftsOf, limitProblem, overridesOf } from '../../src/dashboard/web/src/operator/limit-drafts.js';
import {
  BlockSplitter,
  isClosed,
  jsonIn,
  linkTo,
  tokensOf,
  withoutEntities,
} from '../../src/dashboard/web/src/playground/markdown.js';
import type { Block, Token } from '../../src/dashboard/web/src/playground/markdown.js';
import {
  EXAMPLE_SCHEMA,
  EXAMPLE_TOOLS,
  NO_SETTINGS,
  readSettings,
  stopsOf,
} from '../../src/dashboard/web/src/playground/settings.js';
import { levelOf, percent } from '../../src/dashboard/web/src/playground/token-levels.js';
import { cpuTime } from '../support/cpu-time.js';

const chunk = (delta: object, finish: string | null = null): string =>
  JSON.stringify({ id: 'chatcmpl-1', choices: [{ index: 0, delta, finish_reason: finish }], usage: null });
const usage = JSON.stringify({
  id: 'chatcmpl-1',
  choices: [],
  usage: {
    prompt_tokens: 20,
    completion_tokens: 11,
    prompt_tokens_details: { cached_tokens: 16 },
    completion_tokens_details: { reasoning_tokens: 4 },
  },
});

function play(pieces: readonly [number, string][], start: Answer = sent('m', 1000)): Answer {
  return pieces.reduce((answer, [at, data]) => received(answer, data, at), start);
}

const withCalls = (): Answer =>
  play([
    [1010, chunk({ role: 'assistant', content: '' })],
    [1100, chunk({ reasoning_content: 'I need' })],
    [1150, chunk({ reasoning_content: ' it.' })],
    [1300, chunk({ content: 'Let me look.' })],
    [
      1310,
      chunk({
        tool_calls: [{ index: 0, id: 'call_a', type: 'function', function: { name: 'get_weather', arguments: '' } }],
      }),
    ],
    [1320, chunk({ tool_calls: [{ index: 0, function: { arguments: '{"loc' } }] })],
    [1330, chunk({ tool_calls: [{ index: 0, function: { arguments: 'ation":"Oslo"}' } }] })],
    [
      1340,
      chunk({
        tool_calls: [{ index: 1, id: 'call_b', type: 'function', function: { name: 'get_time', arguments: '' } }],
      }),
    ],
    [1350, chunk({ tool_calls: [{ index: 1, function: { arguments: '{}' } }] })],
    [1590, chunk({}, 'tool_calls')],
    [1600, usage],
    [1600, '[DONE]'],
  ]);

test('a JSON response is shown as JSON, even while it is streaming', (t) => {
  t.same(jsonIn('{"a":[1,2]}'), { text: '{\n  "a": [\n    1,\n    2\n  ]\n}', isComplete: true });
  t.same(jsonIn(' [{"a":'), { text: '[{"a":', isComplete: false });
  for (const prose of ['[1] says otherwise.', '{name}, hello', '[a](b)', 'So: {"a":1}', '["quoted" words] open'])
    t.equal(jsonIn(prose), null, prose);
  t.end();
});

test('tokens are collected with their probabilities, and stop sequences are read one per line', (t) => {
  const token = (text: string, logprob: number): object => ({
    token: text,
    logprob,
    top_logprobs: [{ token: 'x', logprob: -1 }],
  });
  const piece = (text: string, logprobs: object[]): string =>
    JSON.stringify({
      choices: [{ index: 0, delta: { content: text }, logprobs: { content: logprobs }, finish_reason: null }],
    });
  const { tokens, text } = play([
    [1, piece('He', [token('H', -0.1), token('e', -2)])],
    [2, piece('y', [token('y', 0)])],
    [3, chunk({}, 'stop')],
    [3, '[DONE]'],
  ]);
  t.equal(tokens.map((one) => one.token).join(''), text);
  t.same([0, -0.4, -1, -2, -9].map(levelOf), ['sure', 'likely', 'open', 'doubtful', 'unlikely']);
  t.same([0, -0.693, -4, -20].map(percent), ['100 %', '50 %', '1.8 %', '< 0.1 %']);
  t.same(stopsOf('END\n\n\\n\\n\na\\\\n'), ['END', '\n\n', 'a\\n']);
  t.match(readSettings({ ...NO_SETTINGS, model: 'm', topK: '40', stop: 'END', logprobs: '5' }), {
    fields: { top_k: 40, stop: ['END'], logprobs: true, top_logprobs: 5 },
  });
  t.match(readSettings({ ...NO_SETTINGS, model: 'm', topK: '1.5', stop: 'x\n'.repeat(17) }), {
    problems: { topK: /whole/, stop: /At most 16/ },
  });
  const body: ChatBody = {
    model: 'm',
    messages: [{ role: 'user', content: 'x' }],
    stream: true,
    stream_options: { include_usage: true },
    top_k: 40,
    stop: ['END'],
  };
  t.match(
    codeFor('python', body, 'http://h'),
    /extra_body=\{\s*"top_k": 40,?\s*\}/,
    'the parameter is passed as extra_body, which the Python client accepts',
  );
  t.match(codeFor('anthropic', body, 'http://h'), /top_k: 40,[\s\S]*stop_sequences: \['END'\]/);
  t.end();
});

test('stream chunks are assembled into a response', (t) => {
  const answer = withCalls();
  t.match(answer, {
    state: 'done',
    text: 'Let me look.',
    reasoning: 'I need it.',
    finishReason: 'tool_calls',
    usage: { prompt: 20, cached: 16, completion: 11, reasoning: 4 },
    problem: null,
    calls: [
      { id: 'call_a', name: 'get_weather', arguments: '{"location":"Oslo"}' },
      { id: 'call_b', name: 'get_time', arguments: '{}' },
    ],
  });
  t.same(timing(answer, 9e9), { ttftMs: 100, thinkingMs: 200, tokensPerS: 20, totalMs: 600 });
  t.equal(received(answer, chunk({ content: 'late' }), 1700), answer, 'chunks after the end are ignored');
  const waiting = play([[1010, chunk({ role: 'assistant', content: '' })]]);
  t.match(waiting, { state: 'sent', firstAt: null }, 'a chunk with only the role does not count as the first token');
  t.same(timing(waiting, 1500), { ttftMs: null, thinkingMs: null, tokensPerS: null, totalMs: 500 });
  t.end();
});

test('a response that is stopped, interrupted or empty has the right state', (t) => {
  const begun = play([
    [1100, chunk({ content: 'One' })],
    [1110, chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{"' } }] })],
  ]);
  t.match(
    stopped(begun, 1200),
    { state: 'stopped', text: 'One', calls: [], endedAt: 1200 },
    'an incomplete tool call is dropped',
  );
  t.match(ended(begun, 1200), { state: 'failed', problem: { message: /connection was lost/ } });
  t.match(
    received(begun, '{"error":{"message":"Broken.","type":"internal_error","param":null,"code":"model_error"}}', 1200),
    { state: 'failed', problem: { message: 'Broken.', code: 'model_error' }, text: 'One' },
  );
  const problem = { message: 'Busy.', code: 'capacity_exhausted', param: null, status: 503, requestId: 'req_1' };
  t.same(failed(sent('m', 1), problem, 2).problem, problem);
  t.match(
    play([
      [2, chunk({}, 'stop')],
      [3, '[DONE]'],
    ]),
    { state: 'done', text: '' },
    'an empty response is complete too',
  );
  t.throws(() => received(begun, 'no json', 1200), SyntaxError);
  t.end();
});

const picture = { name: 'a.png', dataUrl: 'data:image/png;base64,iVBORw0KGgo=' };
const turns = (): Turn[] => [
  { kind: 'user', id: 1, text: 'Hello "you"\n\'there\'', pictures: [picture] },
  { kind: 'answer', id: 2, answer: withCalls(), results: { call_a: '14 C' } },
];

test('turns are converted to messages', (t) => {
  const list = turns();
  t.same(openCalls(list), ['call_b']);
  (list[1] as AnswerTurn).results = { call_a: '14 C', call_b: '' };
  t.same(openCalls(list), [], 'an empty tool result counts as a result');
  list.push({
    kind: 'answer',
    id: 3,
    answer: failed(sent('m', 1), { message: 'x', code: null, param: null, status: 500, requestId: null }, 2),
    results: {},
  });
  t.same(messagesOf('Be brief.', list), [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: picture.dataUrl } },
        { type: 'text', text: 'Hello "you"\n\'there\'' },
      ],
    },
    {
      role: 'assistant',
      content: 'Let me look.',
      reasoning_content: 'I need it.',
      tool_calls: [
        { id: 'call_a', type: 'function', function: { name: 'get_weather', arguments: '{"location":"Oslo"}' } },
        { id: 'call_b', type: 'function', function: { name: 'get_time', arguments: '{}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_a', content: '14 C' },
    { role: 'tool', tool_call_id: 'call_b', content: '' },
  ]);
  t.equal(beforeLastAnswer(list).length, 2);
  t.same(messagesOf('  ', beforeLastAnswer(list.slice(0, 2))), messagesOf('', [list[0]!]));
  t.end();
});

test('settings are parsed, and invalid ones are reported at their field', (t) => {
  t.same(
    readSettings({ ...NO_SETTINGS, model: 'm' }),
    { fields: { model: 'm' } },
    'settings that are not set are not sent',
  );
  t.match(
    readSettings({
      ...NO_SETTINGS,
      model: 'm',
      temperature: '0.5',
      topP: '1',
      maxTokens: '100',
      seed: '-7',
      effort: 'low',
      tools: EXAMPLE_TOOLS,
      format: 'json_schema',
      schema: EXAMPLE_SCHEMA,
    }),
    {
      fields: {
        model: 'm',
        temperature: 0.5,
        top_p: 1,
        max_completion_tokens: 100,
        seed: -7,
        reasoning_effort: 'low',
        tools: [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }],
        response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true } },
      },
    },
  );
  t.same(
    Object.keys(
      (
        readSettings({
          ...NO_SETTINGS,
          temperature: '3',
          topP: 'x',
          maxTokens: '0',
          seed: '1.5',
          tools: '{',
          format: 'json_schema',
        }) as { problems: object }
      ).problems,
    ).sort(),
    ['maxTokens', 'model', 'schema', 'seed', 'temperature', 'tools', 'topP'],
  );
  const problemOf = (tools: string): unknown =>
    (readSettings({ ...NO_SETTINGS, model: 'm', tools }) as { problems: { tools: string } }).problems.tools;
  t.match(problemOf('[{"type":"function","function":{"name":"no spaces"}}]'), /needs a name/);
  t.match(problemOf('[{"name":"a"},{"name":"a"}]'), /Two tools are named a/);
  t.match(problemOf('[1]'), /must be an object/);
  t.match(problemOf('[{"type":"web_search"}]'), /type must be/);
  t.match(problemOf('[{"name":"a","parameters":[]}]'), /JSON Schema/);
  t.end();
});

test('the generated code sends the same request in every language', (t) => {
  const list = turns();
  (list[1] as AnswerTurn).results = { call_a: '14 C', call_b: 'noon' };
  const settings = readSettings({
    ...NO_SETTINGS,
    model: 'hal-1.0',
    temperature: '0.5',
    effort: 'minimal',
    tools: EXAMPLE_TOOLS,
    format: 'json_schema',
    schema: EXAMPLE_SCHEMA,
  });
  if (!('fields' in settings)) throw new Error('not read');
  const body: ChatBody = {
    ...settings.fields,
    messages: messagesOf('Be brief.', list),
    stream: true,
    stream_options: { include_usage: true },
  };
  const code = Object.fromEntries(LANGUAGES.map(({ id }) => [id, codeFor(id, body, 'https://models.example')]));
  for (const { id } of LANGUAGES) {
    t.match(code[id], /MONOLITH_KEY/, `${id} takes the key from the environment`);
    t.match(code[id], 'https://models.example');
    t.notMatch(code[id], 'iVBORw0KGgo', `${id} has no image data`);
  }
  const json = JSON.parse(/<<'JSON'\n([\s\S]*)\nJSON$/.exec(code['curl']!)![1]!) as ChatBody;
  t.same(json.messages.slice(2), body.messages.slice(2), 'curl sends the same body');
  t.same({ ...json, messages: [] }, { ...body, messages: [] });
  for (const language of ['javascript', 'anthropic'] as const) {
    const check = spawnSync(process.execPath, ['--check', '--input-type=module'], {
      input: code[language]!,
      encoding: 'utf8',
    });
    t.equal(check.status, 0, check.stderr || `${language} parses`);
  }
  const python = spawnSync('python3', ['-c', 'import ast,sys; ast.parse(sys.stdin.read())'], {
    input: code['python']!,
    encoding: 'utf8',
  });
  if (python.error === undefined) t.equal(python.status, 0, python.stderr || 'python parses');
  t.match(code['anthropic'], /thinking: \{ type: 'adaptive' \}/);
  t.match(code['anthropic'], /effort: 'low'/, 'the Messages API has no minimal effort, so low is used');
  t.match(code['anthropic'], /tool_result[\s\S]*tool_result/);
  t.equal((code['anthropic']!.match(/role: 'user'/g) ?? []).length, 2, 'both tool results are in one message');
  t.end();
});

test('literals', (t) => {
  const hostile = { "it's": ['a\n"b"', '\u2028', "'", '\\', '`${x}`'], 'x-y': { n: null, t: true, f: 1.5, e: [] } };
  t.same(Function(`return ${scriptOf(hostile, 0)}`)(), hostile);
  const python = spawnSync('python3', ['-c', `import json; print(json.dumps(${pythonOf(hostile, 0)}))`], {
    encoding: 'utf8',
  });
  if (python.error === undefined) t.same(JSON.parse(python.stdout), hostile);
  t.end();
});

const DOCUMENT = [
  '# Title\n\nOne *two* [r][1]\nthree',
  '- a\n  - b\n\n    c\n- [x] d\n\n3. e\n4. f',
  '| a | b |\n|---|:-:|\n| 1 | `2` |',
  '> quote\nlazy\n>> inner',
  '```js title\nlet a = 1;\n\n# no heading\n```',
  'Setext\n---\n\n<div>\n**x**\n</div>\n\n***\n\n    indented',
  '[1]: http://host/r\n\nend',
].join('\n\n');

test('parsing Markdown as it grows results in the same blocks as parsing it at once, and finished blocks do not change', (t) => {
  const whole = new BlockSplitter().update(DOCUMENT, false);
  t.ok(whole.blocks.length > 10 && whole.blocks.every(({ isDone, isPlain }) => isDone && !isPlain));
  t.match(whole.definitions, { 1: { href: 'http://host/r' } });
  for (const step of [1, 7, 50]) {
    const splitter = new BlockSplitter();
    let finished: readonly Block[] = [];
    for (let end = step; end < DOCUMENT.length; end += step) {
      const done = splitter.update(DOCUMENT.slice(0, end), true).blocks.filter(({ isDone }) => isDone);
      t.same(done.slice(0, finished.length), finished);
      finished = done;
    }
    t.ok(finished.length > 5, 'most blocks are finished before the end');
    t.same(splitter.update(DOCUMENT, false), whole, `in steps of ${step}`);
  }
  const splitter = new BlockSplitter();
  splitter.update('a\n\nb\n\nc\n\nd', true);
  t.same(
    splitter.update('x\r\n\r\ny', false).blocks.map(({ raw }) => raw),
    ['x', 'y'],
    'a different text starts from the beginning',
  );
  t.end();
});

test('an unfinished code fence is code from its first line on, and its closing fence never appears', (t) => {
  const text = 'Text\n\n```js\nlet a;\n```\nDone';
  const seen = new Set<string>();
  for (let end = 1; end <= text.length; end++) {
    const { blocks, definitions } = new BlockSplitter().update(text.slice(0, end), true);
    for (const { raw } of blocks)
      for (const token of tokensOf(raw, definitions) ?? [])
        seen.add(`${token.type}: ${'text' in token ? token.text : ''}`);
  }
  t.notOk(
    [...seen].some((one) => one.includes('`')),
    [...seen].join(', '),
  );
  t.ok(seen.has('code: let a;'));
  t.equal(isClosed('```js\na\n```\n'), true);
  t.equal(isClosed('```js\na\n``'), false);
  t.equal(isClosed('~~~~\n```\n~~~'), false);
  t.equal(isClosed('```'), false);
  t.equal(isClosed('    indented'), true);
  t.end();
});

test('only web and mail addresses are links, and named character references are replaced', (t) => {
  t.equal(linkTo('https://a/?b=1&amp;c=2'), 'https://a/?b=1&c=2');
  t.equal(linkTo('mailto:a@b.c'), 'mailto:a@b.c');
  for (const href of [
    'javascript:alert(1)',
    ' java\nscript:alert(1)',
    'data:text/html,x',
    'file:///etc',
    '/local',
    'x',
  ])
    t.equal(linkTo(href), null, href);
  t.equal(withoutEntities('&lt;b&gt; &amp;lt; &copy;'), '<b> &lt; &copy;');
  t.end();
});

test('a long growing text takes about as long to parse as its parts', (t) => {
  const text = 'A paragraph with **bold** text and `code`.\n\n- one\n- two\n\n'.repeat(2_000);
  const splitter = new BlockSplitter();
  const spent = cpuTime();
  for (let end = 50; end < text.length; end += 50) splitter.update(text.slice(0, end), true);
  t.equal(splitter.update(text, false).blocks.length, 4_000);
  t.ok(spent() < 5_000, `${spent()} ms`);
  t.end();
});

test('hostile Markdown is parsed within limits', (t) => {
  const depth = (tokens: readonly Token[]): number =>
    Math.max(
      0,
      ...tokens.map(
        (token) =>
          1 + depth('tokens' in token ? (token.tokens ?? []) : 'items' in token ? (token.items as Token[]) : []),
      ),
    );
  const many = (text: string, count: number): string => text.repeat(count);
  for (const [name, text] of Object.entries({
    quotes: `${many('> ', 10_000)}x`,
    'quotes without spaces': `${many('>', 10_000)}x`,
    lists: `${many('* ', 10_000)}x`,
    numbers: `${many('1. ', 10_000)}x`,
    'quoted lists': `${many('> - ', 10_000)}x`,
    'lazy quotes': many('> a\nb\n', 10_000),
    'quoted fences': many('> ```\nb\n', 10_000),
    indentation: Array.from({ length: 300 }, (_, at) => `${many('  ', at)}- x`).join('\n'),
    emphasis: many('*a_', 50_000),
    nested: many('*_', 10_000) + many('_*', 10_000),
    brackets: many('[a](', 50_000),
    images: many('![a', 50_000),
    backticks: many('`', 50_000) + many('a`', 50_000),
    addresses: `${many('a.', 50_000)}@`,
    spaces: `a${many(' ', 50_000)}b`,
    cells: `${many('|a', 5_000)}\n${many('|-', 5_000)}\n${many('|b', 5_000)}`,
    items: many('- a\n', 50_000),
    definitions: Array.from({ length: 5_000 }, (_, at) => `[x${at}]: http://a\n`).join('\n'),
    prototype: '[__proto__]: http://a\n\n[constructor][]\n\n[__proto__]\n\n[toString][valueOf]',
  })) {
    const spent = cpuTime();
    const { blocks, definitions } = new BlockSplitter().update(text, false);
    const source = blocks.map(({ raw }) => raw).join('');
    for (const { raw, isPlain } of blocks) {
      const tokens = isPlain ? [] : (tokensOf(raw, definitions) ?? []);
      t.ok(depth(tokens) < 1_000);
    }
    t.ok(spent() < 3_000, `${name}: ${spent()} ms`);
    if (name !== 'definitions' && name !== 'prototype')
      t.ok(source.length > text.length - 10, `${name}: all of the text is shown`);
  }
  t.end();
});

test('a dialogue can send, stop, take tool results, regenerate and clear', async (t) => {
  const bodies: ChatBody[] = [];
  let hold: Promise<void> | null = null;
  let refuse = false;
  const dialogue = new Dialogue({
    open: async (body, signal) => {
      bodies.push(body);
      if (refuse) throw new Error('Too many.');
      const hasTool = body.messages.at(-1)!.role === 'tool';
      const body2 = new ReadableStream<Uint8Array>({
        async start(controller) {
          const send = (data: string): void => controller.enqueue(Buffer.from(`data: ${data}\n\n`));
          signal.addEventListener('abort', () => {
            try {
              controller.error(new DOMException('aborted', 'AbortError'));
            } catch {
              /* the stream is already closed */
            }
          });
          send(chunk({ content: 'One' }));
          if (hold !== null) await hold;
          if (signal.aborted) return;
          if (!hasTool && body.tools !== undefined)
            send(chunk({ tool_calls: [{ index: 0, id: 'call_a', function: { name: 'f', arguments: '{}' } }] }));
          send(chunk({}, 'stop'));
          send('[DONE]');
          controller.close();
        },
      });
      return new Response(body2, { headers: { 'x-request-id': 'req_1' } });
    },
    problemOf: (error) => ({
      message: (error as Error).message,
      code: 'rpm_limit_exceeded',
      param: null,
      status: 429,
      requestId: 'req_9',
    }),
  });
  const ask = { system: '', fields: { model: 'm' } };
  const last = (): AnswerTurn => dialogue.state().turns.at(-1) as AnswerTurn;
  let changes = 0;
  const unsubscribe = dialogue.subscribe(() => {
    changes++;
  });
  await dialogue.say('Hi', [], ask);
  t.match(last().answer, { state: 'done', text: 'One' });
  t.ok(changes >= 3, 'listeners are notified of each chunk');
  t.equal(dialogue.state(), dialogue.state(), 'state() returns the same object until something changes');

  let release = (): void => undefined;
  hold = new Promise((done) => {
    release = done;
  });
  const running = dialogue.say('More', [], ask);
  while (last().answer.text === '') await new Promise((done) => setTimeout(done, 1));
  t.equal(dialogue.state().running, true);
  await dialogue.say('Not now', [], ask);
  t.equal(bodies.length, 2, 'a second message is ignored while a response is running');
  dialogue.stop();
  await running;
  t.match(last().answer, { state: 'stopped', text: 'One' });
  t.equal(dialogue.state().running, false);
  release();
  hold = null;

  const tools = { system: '', fields: { model: 'm', tools: [{ type: 'function' as const, function: { name: 'f' } }] } };
  await dialogue.regenerate(tools);
  t.same(
    bodies.at(-1)!.messages.map(({ role }) => role),
    ['user', 'assistant', 'user'],
    'the stopped response is dropped',
  );
  t.same(openCalls(dialogue.state().turns), ['call_a']);
  await dialogue.giveResults({ call_a: '14 C' }, tools);
  t.match(bodies.at(-1)!.messages.at(-1), { role: 'tool', tool_call_id: 'call_a', content: '14 C' });
  t.match(last().answer, { state: 'done', calls: [] });

  refuse = true;
  await dialogue.sayInstead(dialogue.state().turns[0]!.id, 'Hello', ask);
  t.match(bodies.at(-1)!.messages, [{ role: 'user', content: 'Hello' }], 'editing a message removes the later turns');
  t.match(last().answer, { state: 'failed', problem: { code: 'rpm_limit_exceeded', requestId: 'req_9' } });
  refuse = false;
  const cleared = dialogue.say('Again', [], ask);
  dialogue.clear();
  await cleared;
  t.same(
    dialogue.state(),
    { turns: [], running: false },
    'a response that was running when the dialogue was cleared is dropped',
  );
  unsubscribe();
});

test('limit fields are parsed and validated in the form that operators type', (t) => {
  const overrides = { '*': { rpm: 10 }, 'hal-1.0': { tpm: null, concurrency: 3 } };
  const drafts = draftsOf(overrides, ['*', 'hal-1.0', 'tycho-1.0']);
  t.same(overridesOf(drafts), overrides, 'limits survive a round trip through the form fields');
  drafts['tycho-1.0']!.tpm = { text: ' 1,000,000 ', off: false };
  drafts['*']!.rpm = { text: '', off: false };
  t.same(overridesOf(drafts), { 'hal-1.0': { tpm: null, concurrency: 3 }, 'tycho-1.0': { tpm: 1_000_000 } });
  for (const text of ['0', '-1', '1.5', 'x', '1e10']) t.type(limitProblem({ text, off: false }), 'string', text);
  drafts['*']!.rpm = { text: '0', off: false };
  t.equal(overridesOf(drafts), null);
  t.equal(limitProblem({ text: 'x', off: true }), null);
  t.end();
});
