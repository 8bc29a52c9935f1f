import t from 'tap';
import {
  closeText,
  findMarkers,
  openReasoning,
  reasoningBudget,
  withReasoningOpened,
} from '../../src/generation/local/reasoning.js';

const think = { open: '<think>', close: '</think>' };

t.test('takes reasoning markers from the template or, if it has none, from the vocabulary', async (t) => {
  t.same(
    findMarkers('… <think> … </think>', () => false),
    think,
  );
  t.same(
    findMarkers('', (token) => token === '[THINK]' || token === '[/THINK]'),
    { open: '[THINK]', close: '[/THINK]' },
  );
  t.equal(
    findMarkers('no reasoning here', () => false),
    null,
  );
  const m3 = findMarkers("{%- set think = '<mm:think>' ~ '</mm:think>' -%}", () => false)!;
  const hy3 = findMarkers(
    "{%- set HYTK = ':opensource' %}{%- set think = '<think{}>'.format(HYTK) -%}{{ '</think{}>'.format(HYTK) }}",
    () => true,
  )!;
  t.same(
    [hy3.open, closeText(hy3), openReasoning('a<think:opensource>', hy3, false)],
    ['<think:opensource>', '\n</think:opensource>', { begun: false }],
  );
  t.same(
    [
      m3.open,
      closeText(m3),
      openReasoning('a<mm:think>', m3, false),
      openReasoning('a<mm:think>b</mm:think>', m3, false),
    ],
    ['<mm:think>', '\n</mm:think>', { begun: false }, null],
  );
  t.match(
    findMarkers('{{ "<|channel>thought\n<channel|>" }}', () => false),
    { open: '<|channel>', close: '<channel|>', label: 'thought' },
  );
  t.match(
    findMarkers('', (token) => token === '<|START_THINKING|>' || token === '<|END_THINKING|>'),
    { open: '<|START_THINKING|>' },
  );
  t.match(
    findMarkers("'Here is my thought process:' 'Here is my response:'", () => false),
    { open: 'Here is my thought process:' },
  );
});

t.test('the end of the prompt decides whether generation starts inside reasoning', async (t) => {
  t.same(openReasoning('<|im_start|>assistant\n<think>\n', think, false), { begun: false });
  t.equal(
    openReasoning('<|im_start|>assistant\n<think>\n\n</think>\n\n', think, false),
    null,
    'an empty section is closed',
  );
  t.equal(openReasoning('<|im_start|>assistant\n', think, false), null);
  t.equal(
    openReasoning('Use <think> tags.\nassistant: ', think, false),
    null,
    'mentioning the marker does not open reasoning',
  );
  t.same(
    openReasoning('assistant\n<think>\nhalf a thought', think, true),
    { begun: true },
    'a continued response is inside reasoning',
  );
  t.same(
    openReasoning('assistant\n<think>\n', think, true),
    { begun: false },
    'a continued response may have no reasoning text yet',
  );
  t.equal(openReasoning('assistant\n<think>\nhm\n</think>\n\nSo', think, true), null);
});

t.test('the prompt opens the reasoning of a model with channels', async (t) => {
  const markers = findMarkers('… <|channel|>analysis<|message|> … <|channel|>final<|message|> …', () => false);
  t.ok(markers !== null);
  if (markers === null) return;
  const earlier = '<|start|>user<|message|>Hi<|end|>';
  const opened = withReasoningOpened(`${earlier}<|start|>assistant`, markers);
  t.equal(opened, `${earlier}<|start|>assistant<|channel|>analysis<|message|>`);
  t.same(openReasoning(opened, markers, false), { begun: false });
  t.equal(
    withReasoningOpened(earlier, markers),
    earlier,
    'reasoning is opened only at the start of an assistant message',
  );
  t.equal(
    openReasoning(
      `<|start|>assistant${markers.open}hm<|end|><|start|>assistant<|channel|>final<|message|>So`,
      markers,
      true,
    ),
    null,
    'a continued response is past its reasoning',
  );
  t.equal(
    openReasoning(`<|start|>assistant${markers.open}hm<|end|><|start|>assistant to=functions.a<|call|>`, markers, true),
    null,
  );
  t.equal(closeText(markers), '<|end|><|start|>assistant<|channel|>final<|message|>');
  t.equal(closeText(markers, 'call'), '<|end|>', 'a call has its own header');
  t.equal(closeText(think), '\n</think>\n\n');
  t.equal(withReasoningOpened('assistant', think), 'assistant');
});

t.test('reasoning budgets leave room for the response', async (t) => {
  t.equal(reasoningBudget('none', 4_096, 3), 0);
  t.equal(reasoningBudget('medium', 32_768, 3), 8_192);
  t.equal(reasoningBudget('medium', 8_192, 3), 8_192 - 1_024 - 3);
  t.equal(reasoningBudget('low', 100, 0), 75);
  t.equal(reasoningBudget('max', 10_000, 4), 10_000 - 1_024 - 4);
  t.equal(reasoningBudget('minimal', 1, 3), 0, 'the budget is never negative');
});
