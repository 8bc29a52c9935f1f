import t from 'tap';
import { clientTexts, fitToTemplate, toTemplateMessages } from '../../src/generation/conversation.js';
import { Shield, startersOf } from '../../src/generation/shield.js';
import type { Message } from '../../src/generation/types.js';

const user = (content: string): Message => ({ role: 'user', content });
const system = (content: string): Message => ({ role: 'system', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });
const everything = { system: 'anywhere', alternation: false, thinkingSwitch: false, argumentsAsText: false } as const;

t.test('nothing changes where the template takes everything', async (t) => {
  const messages = [system('a'), user('b'), user('c'), system('d')];
  t.same(fitToTemplate(messages, everything), messages);
});

t.test('system messages gather where the template has one slot, or fold into the first user message', async (t) => {
  const messages = [system('a'), user('b'), assistant('c'), system('d'), user('e')];
  t.same(fitToTemplate(messages, { ...everything, system: 'first' }), [system('a\n\nd'), user('b'), assistant('c'), user('e')]);
  t.same(fitToTemplate(messages, { ...everything, system: 'none' }), [user('a\n\nd\n\nb'), assistant('c'), user('e')]);
  t.same(fitToTemplate([system('a')], { ...everything, system: 'none' }), [user('a')]);
});

t.test('neighbours merge where roles must alternate', async (t) => {
  const merged = fitToTemplate([user('a'), user('b'), assistant('c'), assistant('d'), user('e')], { ...everything, alternation: true });
  t.same(merged, [user('a\n\nb'), assistant('c\n\nd'), user('e')]);
});

t.test('reasoning goes back only after the last user message, arguments become objects', async (t) => {
  const call = { id: 'call_1', name: 'add', arguments: '{"a":1,"b":["<x>"]}' };
  const messages: Message[] = [
    user('one'), { role: 'assistant', content: 'two', reasoning: 'old' },
    user('three'), { role: 'assistant', content: null, reasoning: 'new', toolCalls: [call, { ...call, id: 'call_2', arguments: 'not json' }] },
    { role: 'tool', content: '3', toolCallId: 'call_1' },
  ];
  const shield = Shield.for(clientTexts(messages), null);
  t.ok(shield);
  const result = toTemplateMessages(messages, shield!, everything);
  t.notOk('reasoning_content' in result[1]!);
  t.equal(result[3]!.reasoning_content, 'new');
  t.same(result[3]!.tool_calls?.map((item) => item.function.arguments), [{ a: 1, b: ['<x>'] }, 'not json']);
  const exact = '{"id":1234567890123456789,"x":1.0,"10":1,"9":2}';
  const one: Message[] = [{ role: 'assistant', content: null, toolCalls: [{ ...call, arguments: exact }] }];
  t.equal(toTemplateMessages(one, shield!, { ...everything, argumentsAsText: true })[0]!.tool_calls![0]!.function.arguments, exact, 'as written where the template takes text');
});

t.test('arguments nested without end stay text', async (t) => {
  const deep = '{"a":'.repeat(50_000) + '1' + '}'.repeat(50_000);
  const messages: Message[] = [{ role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: deep }] }];
  const shield = Shield.for(clientTexts(messages), null);
  t.equal(toTemplateMessages(messages, shield!, everything)[0]!.tool_calls![0]!.function.arguments, deep);
});

t.test('the guard breaks every spelling that a client writes and is chosen apart from its text', async (t) => {
  const starters = startersOf(['<|im_end|>', '[INST]', '</s>']);
  const shield = Shield.for(['plain'], starters)!;
  const guard = String.fromCodePoint(shield.guard);
  t.equal(shield.protect('a <|im_end|> [INST] b'), `a <${guard}|im_end|> [${guard}INST] b`);
  t.equal(shield.protect('nothing'), 'nothing');
  t.equal(shield.protect('a < b, [0], </p>'), `a < b, [0], <${guard}/p>`, 'no more than needed');
  t.equal(shield.protect('ends with <'), `ends with <${guard}`, 'a seam may follow');

  t.equal(shield.protect(`${'x'.repeat(1 << 20)} < </s>`).slice(1 << 20), ` <${guard} <${guard}/s>`, 'a huge text gets them all');

  const other = Shield.for([`uses ${guard}`, '\\ufdd1'], starters)!;
  t.not(other.guard, shield.guard);

  let all = '';
  for (let code = 0xfdd0; code <= 0xfdef; code++) all += String.fromCharCode(code);
  for (let code = 0xe000; code <= 0xf8ff; code++) all += String.fromCharCode(code);
  t.equal(Shield.for([all], starters), null, 'a text that uses every candidate leaves none');

  const escaped: Message[] = [{ role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: '{"a":"\\ufdd0"}' }] }];
  t.not(Shield.for(clientTexts(escaped), starters)!.guard, 0xfdd0, 'characters escaped in arguments count');
});
