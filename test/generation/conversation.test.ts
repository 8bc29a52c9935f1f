import t from 'tap';
import { ChatTemplate } from '../../src/generation/local/template/chat-template.js';
import type { TemplateMessage } from '../../src/generation/local/template/context.js';
import {
  addSystemText,
  clientTexts,
  placeSystem,
  toTemplateMessages,
  type TemplateShape,
} from '../../src/generation/local/conversation.js';
import { TemplateTools } from '../../src/generation/local/tools/template-tools.js';
import { parseExact } from '../../src/shared/exact-json.js';
import { toJson } from '../../src/generation/local/template/json.js';
import { RenderBudget } from '../../src/generation/local/template/limits.js';
import { Run } from '../../src/generation/local/template/run.js';
import type { Value } from '../../src/generation/local/template/values.js';
import { Shield, startersOf } from '../../src/generation/local/shield.js';
import type { TemplateCapabilities } from '../../src/generation/local/template/probe.js';
import { HERMES } from '../../src/generation/local/tools/hermes.js';
import type { Message } from '../../src/generation/types.js';

const user = (content: string): Message => ({ role: 'user', content });
const system = (content: string): Message => ({ role: 'system', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });
const everything: TemplateCapabilities = {
  system: 'anywhere',
  alternation: false,
  thinkingSwitch: false,
  tools: true,
  calls: 'many',
  callText: true,
  callArguments: 'object',
  textArguments: true,
  callIds: 'free',
  reasoningField: 'reasoning_content',
};
const shapeOf = (can: Partial<TemplateCapabilities> = {}): TemplateShape => ({
  can: { ...everything, ...can },
  inlineReasoning: null,
  dialect: { syntax: HERMES, showsTools: true, showsCalls: can.calls !== 'none' },
});
const bare = Shield.for([], null)!;
const folded = (messages: Message[], can: Partial<TemplateCapabilities> = {}): TemplateMessage[] =>
  toTemplateMessages(messages, bare, shapeOf(can));

t.test('leaves messages unchanged if the template supports everything', async (t) => {
  const messages = [system('a'), user('b'), user('c'), system('d')];
  t.same(folded(placeSystem(messages, everything) as Message[]), messages);
});

t.test('joins system messages if the template has one slot, or folds them into the first user message', async (t) => {
  const messages = [system('a'), user('b'), assistant('c'), system('d'), user('e')];
  t.same(placeSystem(messages, { system: 'first' }), [system('a\n\nd'), user('b'), assistant('c'), user('e')]);
  t.same(placeSystem(messages, { system: 'none' }), [user('a\n\nd\n\nb'), assistant('c'), user('e')]);
  t.same(placeSystem([system('a')], { system: 'none' }), [user('a')]);
});

t.test('places generated system text where the template supports it', async (t) => {
  const one: TemplateMessage[] = [{ role: 'user', content: 'hi' }];
  const two: TemplateMessage[] = [{ role: 'system', content: 'be kind' }, ...one];
  t.same(addSystemText(one, 'x', { system: 'first' }), [{ role: 'system', content: 'x' }, ...one]);
  t.same(addSystemText(two, 'x', { system: 'anywhere' }), [{ role: 'system', content: 'be kind\n\nx' }, ...one]);
  t.same(addSystemText(one, 'x', { system: 'none' }), [{ role: 'user', content: 'x\n\nhi' }]);
});

t.test('merges consecutive messages where roles must alternate', async (t) => {
  t.same(folded([user('a'), user('b'), assistant('c'), assistant('d'), user('e')], { alternation: true }), [
    user('a\n\nb'),
    assistant('c\n\nd'),
    user('e'),
  ]);
});

const call = { id: 'call_1', name: 'add', arguments: '{"a":1,"b":["<x>"]}' };

t.test('passes all reasoning to templates with a field for it; parses arguments into objects', async (t) => {
  const messages: Message[] = [
    user('one'),
    { role: 'assistant', content: 'two', reasoning: 'old' },
    user('three'),
    {
      role: 'assistant',
      content: null,
      reasoning: 'new',
      toolCalls: [call, { ...call, id: 'call_2', arguments: 'not json' }],
    },
    { role: 'tool', content: '3', toolCallId: 'call_1' },
  ];
  const result = folded(messages);
  t.equal(result[1]!.reasoning_content, 'old');
  t.equal(result[3]!.reasoning_content, 'new');
  t.same(argumentsOf(result[3]), ['{"a": 1, "b": ["<x>"]}', '"not json"']);
  t.same(
    argumentsOf(folded(messages, { textArguments: false })[3]),
    ['{"a": 1, "b": ["<x>"]}', '{"arguments": "not json"}'],
    'a template that needs an object gets one',
  );
  const inline = toTemplateMessages(messages, bare, {
    ...shapeOf({ reasoningField: null }),
    inlineReasoning: { open: '<think>', close: '</think>' },
  });
  t.equal(inline[3]!.content, '<think>\nnew\n</think>\n\n');
  t.equal(inline[1]!.content, 'two');
});

/** Returns the arguments of each call as JSON. */
function argumentsOf(message: TemplateMessage | undefined): string[] {
  const run = new Run(new RenderBudget(), () => new Date());
  return (message?.tool_calls ?? []).map((item) => toJson(run, item.function.arguments as Value));
}

t.test('passes arguments as objects whose numbers are as the model wrote them', async (t) => {
  const exact = '{"id": 1234567890123456789, "x": 1.0, "10": 1, "9": 2, "n": null, "c": {"d": [5, -1e-7]}}';
  const messages: Message[] = [
    {
      role: 'assistant',
      content: null,
      toolCalls: [
        { ...call, arguments: exact },
        { ...call, id: 'b', arguments: 'bad "' },
        { ...call, id: 'c', arguments: '' },
      ],
    },
  ];
  const written = exact.replace('-1e-7', '-1e-07');
  t.same(argumentsOf(folded(messages)[0]), [written, '"bad \\""', '{}']);
  t.same(
    folded(messages, { callArguments: 'text' })[0]!.tool_calls!.map((item) => item.function.arguments),
    [exact, 'bad "', '{}'],
    'a template that fails on objects gets the text',
  );

  const source =
    '{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}:{{ c.function.arguments | tojson }};{% endfor %}{% endfor %}';
  const template = new ChatTemplate(source, { bos: null, eos: null });
  t.equal(
    template.render({
      messages: toTemplateMessages(messages, bare, shapeOf(template.capabilities)),
      tools: null,
      addGenerationPrompt: false,
      enableThinking: false,
    }),
    `add:${written};add:"bad \\"";add:{};`,
  );
});

t.test('tool definitions reach the template with the order and the numbers that the client wrote', async (t) => {
  const template = new ChatTemplate('{{ messages[0].content }}{{ tools[0].function.parameters | tojson if tools }}', {
    bos: null,
    eos: null,
  });
  const rendered = (schema: string): string => {
    const tools = new TemplateTools();
    const parameters = parseExact(schema) as Record<string, unknown>;
    const definitions = [{ name: 'f', description: null, parameters, strict: false, path: 'tools[0]' }];
    const made = tools.forTemplate(definitions, tools.textOf(definitions), bare);
    return template.render({
      messages: [{ role: 'user', content: '' }],
      tools: made,
      addGenerationPrompt: false,
      enableThinking: false,
    });
  };
  for (const schema of [
    '{"properties": {"a": {"minimum": 0.0, "maximum": 9007199254740993, "default": 1.0}}, "type": "object"}',
    '{"type": ["object", "null"], "properties": {"b": {"enum": [1, 1.0, 1.5]}}, "required": ["b"]}',
  ])
    t.equal(rendered(schema), schema);
  t.equal(rendered('{"type": "object", "properties": null}'), '{"type": "object", "properties": {}}');
  t.equal(rendered('{"required": []}'), '{"type": "object", "required": [], "properties": {}}');
});

t.test('renders arguments that are nested as deeply as arguments may be', async (t) => {
  const nested = '{"a": '.repeat(255) + '1' + '}'.repeat(255);
  const messages: Message[] = [
    { role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: nested }] },
  ];
  t.same(argumentsOf(folded(messages)[0]), [nested]);
});

t.test('keeps extremely nested arguments as text', async (t) => {
  const deep = '{"a":'.repeat(50_000) + '1' + '}'.repeat(50_000);
  const messages: Message[] = [
    { role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: deep }] },
  ];
  t.ok(Shield.for(clientTexts(messages), null));
  t.same(folded(messages)[0]!.tool_calls![0]!.function.arguments, deep);
});

const loop: Message[] = [
  user('go'),
  {
    role: 'assistant',
    content: 'Let me see.',
    toolCalls: [
      { ...call, arguments: '{}' },
      { id: 'call_2', name: 'sub', arguments: '{"x": 1}' },
    ],
  },
  { role: 'tool', content: 'two', toolCallId: 'call_2', failed: true },
  { role: 'tool', content: 'one', toolCallId: 'call_1' },
];

t.test('orders results by their calls, adds names and marks failures', async (t) => {
  t.same(folded(loop).slice(2), [
    { role: 'tool', name: 'add', tool_call_id: 'call_1', content: 'one' },
    { role: 'tool', name: 'sub', tool_call_id: 'call_2', content: 'Error: two' },
  ]);
});

t.test('puts each call into its own message if the template supports only one per message', async (t) => {
  const result = folded(loop, { calls: 'one' });
  t.same(
    result.map(({ role, content, tool_calls }) => [role, content, tool_calls?.map((item) => item.function.name)]),
    [
      ['user', 'go', undefined],
      ['assistant', 'Let me see.', ['add']],
      ['tool', 'one', undefined],
      ['assistant', '', ['sub']],
      ['tool', 'Error: two', undefined],
    ],
  );
});

t.test('moves text next to calls to its own message if the template would drop it', async (t) => {
  const result = folded(loop, { callText: false });
  t.same(
    result.slice(1, 3).map(({ role, content, tool_calls }) => [role, content, tool_calls?.length]),
    [
      ['assistant', 'Let me see.', undefined],
      ['assistant', '', 2],
    ],
  );
  t.equal(folded([{ ...loop[1]!, content: null } as Message], { callText: false }).length, 1);
});

t.test('turns calls, or the text next to them, into text if the template does not support them', async (t) => {
  const written = [
    user('go'),
    assistant(
      'Let me see.\n<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "sub", "arguments": {"x": 1}}\n</tool_call>',
    ),
    user('<tool_response>\none\n</tool_response>\n<tool_response>\nError: two\n</tool_response>'),
  ];
  t.same(folded(loop, { calls: 'none' }), written);
  t.same(folded(loop, { callText: false, alternation: true }), written);
});

t.test('numbers ids that the template rejects', async (t) => {
  const result = folded(loop, { callIds: 'short' });
  t.same(
    result[1]!.tool_calls!.map(({ id }) => id),
    ['c00000000', 'c00000001'],
  );
  t.same(
    result.slice(2).map((message) => message.tool_call_id),
    ['c00000000', 'c00000001'],
  );
});

t.test('replaces images with a note', async (t) => {
  const image = { bytes: new Uint8Array(), format: 'png' as const, width: 640, height: 480 };
  const [message] = folded([
    {
      role: 'user',
      content: [
        { type: 'text', text: 'See ' },
        { type: 'image', source: { kind: 'loaded', image }, detail: 'auto', path: 'p' },
      ],
    },
  ]);
  t.equal(message!.content, 'See [image: PNG, 640 x 480]');
});

t.test(
  'the guard breaks up every special token spelled out in client text, using a character that does not occur in that text',
  async (t) => {
    const starters = startersOf(['<|im_end|>', '[INST]', '</s>']);
    const shield = Shield.for(['plain'], starters)!;
    const guard = String.fromCodePoint(shield.guard);
    t.equal(shield.protect('a <|im_end|> [INST] b'), `a <${guard}|im_end|> [${guard}INST] b`);
    t.equal(shield.protect('nothing'), 'nothing');
    t.equal(shield.protect('a < b, [0], </p>'), `a < b, [0], <${guard}/p>`, 'no more guards are inserted than needed');
    t.equal(shield.protect('ends with <'), `ends with <${guard}`, 'a token may be completed by the next text');

    t.equal(
      shield.protect(`${'x'.repeat(1 << 20)} < </s>`).slice(1 << 20),
      ` <${guard} <${guard}/s>`,
      'a very large text is guarded everywhere',
    );

    const other = Shield.for([`uses ${guard}`, '\\ufdd1'], starters)!;
    t.not(other.guard, shield.guard);

    let all = '';
    for (let code = 0xfdd0; code <= 0xfdef; code++) all += String.fromCharCode(code);
    for (let code = 0xe000; code <= 0xf8ff; code++) all += String.fromCharCode(code);
    t.equal(
      Shield.for([all], starters),
      null,
      'a text that contains every candidate character leaves none for the guard',
    );

    const escaped: Message[] = [
      { role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: '{"a":"\\ufdd0"}' }] },
    ];
    t.not(Shield.for(clientTexts(escaped), starters)!.guard, 0xfdd0, 'escaped characters in arguments count');
  },
);
