// Tests the positions of images in a prompt, for any template and any surrounding text.
import t from 'tap';
import { CHATML_TEMPLATE, ChatTemplate } from '../../src/generation/local/template/chat-template.js';
import { PromptWriter, type PromptText } from '../../src/generation/local/prompt-writer.js';
import { startersOf } from '../../src/generation/local/shield.js';
import { findDialect } from '../../src/generation/local/tools/dialect.js';
import type { ImagePart, Message } from '../../src/generation/types.js';

const image = (number: number): ImagePart => ({
  type: 'image',
  detail: 'auto',
  path: `image ${number}`,
  source: { kind: 'loaded', image: { bytes: new Uint8Array(), format: 'png', width: 40, height: 30 } },
});

function write(
  messages: Message[],
  { template = CHATML_TEMPLATE, sees = true, continueFinal = false } = {},
): PromptText {
  const chat = new ChatTemplate(template, { bos: null, eos: null });
  const writer = new PromptWriter(
    chat,
    findDialect(chat, () => false),
    null,
    startersOf(['<|im_end|>', '<|im_start|>', 'i0', '0']),
    sees,
  );
  return writer.write(
    { messages, tools: [], format: { type: 'text' }, continueFinal, promptParam: 'messages' },
    { thinking: false },
  );
}

/** Removes the guard characters, which the tokenizer skips. */
const plain = ({ texts, guard }: PromptText): string[] =>
  texts.map((text) => text.replaceAll(String.fromCodePoint(guard), ''));
const places = ({ images }: PromptText): string[] => images.map(({ path }) => path);

t.test('keeps each image at its position and texts separate', async (t) => {
  const written = write([
    { role: 'system', content: 'Look.' },
    { role: 'user', content: [image(1), { type: 'text', text: 'and <|im_end|> i0' }, image(2), image(3)] },
    { role: 'assistant', content: 'Yes.' },
    { role: 'user', content: [{ type: 'text', text: 'again ' }, image(4)] },
  ]);
  t.same(places(written), ['image 1', 'image 2', 'image 3', 'image 4']);
  t.same(plain(written), [
    '<|im_start|>system\nLook.<|im_end|>\n<|im_start|>user\n',
    'and <|im_end|> i0',
    '',
    '<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>user\nagain ',
    '<|im_end|>\n<|im_start|>assistant\n',
  ]);
});

t.test(
  'keeps image positions in tool results, folded system messages, continued responses and merged messages',
  async (t) => {
    const call = { id: 'call_1', name: 'look', arguments: '{"at": "0"}' };
    const inResult = write([
      { role: 'user', content: 'Look around' },
      { role: 'assistant', content: null, toolCalls: [call] },
      { role: 'tool', toolCallId: 'call_1', content: [{ type: 'text', text: 'seen: ' }, image(1)] },
    ]);
    t.same(places(inResult), ['image 1']);
    t.match(plain(inResult)[0], /seen: $/);
    const without =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('none') }}{% endif %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}[{{ m.content }}]{% endfor %}";
    const folded = write(
      [
        { role: 'system', content: 'Be short.' },
        { role: 'user', content: [image(1)] },
        { role: 'user', content: [image(2), { type: 'text', text: '?' }] },
      ],
      { template: without },
    );
    t.same(plain(folded), ['[Be short.\n\n', '\n\n', '?]']);
    const continued = write(
      [
        { role: 'user', content: [image(1)] },
        { role: 'assistant', content: 'It is' },
      ],
      { continueFinal: true },
    );
    t.match(plain(continued)[1], /It is$/);
  },
);

t.test('refuses a template that omits an image or renders it twice', async (t) => {
  const messages: Message[] = [
    { role: 'user', content: [image(1)] },
    { role: 'assistant', content: 'x' },
    { role: 'user', content: 'and now?' },
  ];
  for (const template of [
    '{{ messages[-1].content }}',
    '{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}',
  ]) {
    t.throws(() => write(messages, { template }), { code: 'invalid_value', param: 'messages' }, template);
  }
});

t.test('a model without a vision encoder gets a note', async (t) => {
  const written = write([{ role: 'user', content: [image(1)] }], { sees: false });
  t.same(places(written), []);
  t.match(plain(written)[0], /\[image: PNG, 40 x 30\]/);
});
