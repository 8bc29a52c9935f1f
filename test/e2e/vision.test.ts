// Tests a vision model on a whole server through the official clients: images in all three formats, in tool results and
// in response chains; their token counts, which are computed in advance and reserved; and errors that give the position
// of an invalid image.
import Anthropic from '@anthropic-ai/sdk';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import sharp from 'sharp';
import t from 'tap';
import { ask } from '../support/wire.js';
import { startOtlpReceiver, type SeenSpan } from '../support/otlp-receiver.js';
import { jpegWithSides, pngOf } from '../support/hostile-images.js';
import { eventually, root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const folder = join(root, 'test', 'data', 'vision');
const text = join(folder, 'text-llama-bpe.gguf');
// The vision encoder is a file in the same directory, found by its standard name.
const receiver = await startOtlpReceiver();
t.teardown(() => receiver.close());
const server = await startMonolith({
  args: ['--model', `see=${text}`],
  env: {
    MONOLITH_TELEMETRY_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
    MONOLITH_IMAGES_MAX_TOKENS: '200',
    MONOLITH_IMAGES_MAX_REQUEST_TOKENS: '600',
    MONOLITH_MODELS: JSON.stringify({ see: { max_output_tokens: 8 } }),
  },
});
t.teardown(() => server.stop());
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });

const shapes = readFileSync(join(folder, 'shapes.png'));
const SHAPES_TOKENS = 184; // nine tiles and the overview, as llama.cpp counts them
const flipped = await sharp(shapes).flop().png().toBuffer();
const dataUrl = (bytes: Buffer): string => `data:image/png;base64,${bytes.toString('base64')}`;

type Detail = 'low' | 'high' | 'auto';
const chatParts = (images: readonly Buffer[], detail: Detail = 'auto') => [
  { type: 'text' as const, text: 'Look at this: ' },
  ...images.map((bytes) => ({ type: 'image_url' as const, image_url: { url: dataUrl(bytes), detail } })),
  { type: 'text' as const, text: ' What is it?' },
];
const chat = (images: readonly Buffer[], detail: Detail = 'auto') =>
  openai.chat.completions.create({
    model: 'see',
    max_tokens: 6,
    temperature: 0,
    logprobs: true,
    messages: [{ role: 'user', content: chatParts(images, detail) }],
  });
const block = (bytes: Buffer): Anthropic.ImageBlockParam => ({
  type: 'image',
  source: { type: 'base64', media_type: 'image/png', data: bytes.toString('base64') },
});
const logprobs = (answer: OpenAI.ChatCompletion): unknown =>
  answer.choices[0]!.logprobs!.content!.map(({ token, logprob }) => [token, logprob]);

t.test("an image of Ollama's API comes before the text, like an image part before a text part", async (t) => {
  const messages = [{ role: 'user', content: 'What is it?', images: [shapes.toString('base64')] }];
  const options = { num_predict: 6, temperature: 0 };
  const { status, body } = await ask(server, '/api/chat', {
    model: 'see',
    messages,
    options,
    stream: false,
    logprobs: true,
  });
  t.equal(status, 200);
  const answer = await openai.chat.completions.create({
    model: 'see',
    max_tokens: 6,
    temperature: 0,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: dataUrl(shapes) } },
          { type: 'text', text: 'What is it?' },
        ],
      },
    ],
  });
  t.match(body, {
    prompt_eval_count: answer.usage?.prompt_tokens,
    message: { content: answer.choices[0]?.message.content },
  });
  const wrong = await ask(server, '/api/generate', { model: 'see', prompt: 'x', images: ['AAAA'], stream: false });
  t.equal(wrong.status, 422);
  t.match(wrong.body, { error: /image/ });
});

t.test('a comparison of prompts distinguishes images of the same size', async (t) => {
  const say = (content: Anthropic.ContentBlockParam[], compared: string | null): Promise<Anthropic.Message> => {
    const diagnostics: object = { diagnostics: { previous_message_id: compared } };
    return anthropic.messages.create({
      model: 'see',
      max_tokens: 4,
      messages: [{ role: 'user', content }],
      ...diagnostics,
    });
  };
  const reasonOf = (message: Anthropic.Message): unknown =>
    (message.diagnostics as { cache_miss_reason: unknown } | null)?.cache_miss_reason ?? null;
  const before: Anthropic.TextBlockParam = { type: 'text', text: 'Look at this: ' };
  const after: Anthropic.TextBlockParam = { type: 'text', text: ' What is it?' };
  const first = await say([before, block(shapes), after], null);
  t.equal(reasonOf(await say([before, block(shapes), after], first.id)), null);
  const other = reasonOf(await say([before, block(flipped), after], first.id)) as { cache_missed_input_tokens: number };
  const later = reasonOf(await say([before, block(shapes), { ...after, text: ' Who is it?' }], first.id)) as {
    cache_missed_input_tokens: number;
  };
  t.match([other, later], [{ type: 'messages_changed' }, { type: 'messages_changed' }]);
  // Both prompts have the same marker before the image and the same first tokens of the text.
  const imageTokens = other.cache_missed_input_tokens - later.cache_missed_input_tokens;
  t.ok(
    imageTokens >= SHAPES_TOKENS && imageTokens <= SHAPES_TOKENS + 4,
    `${imageTokens} tokens from the start of the image to the changed word`,
  );
});

t.test('images in chat completions count as prompt tokens and change the output', async (t) => {
  const none = await chat([]);
  const one = await chat([shapes]);
  // The texts before and after an image are tokenized separately, which may result in one more token than for the
  // joined text.
  const extra = one.usage!.prompt_tokens - none.usage!.prompt_tokens - SHAPES_TOKENS;
  t.ok(extra === 0 || extra === 1, `the image takes ${SHAPES_TOKENS} tokens (${extra} more)`);
  const other = await chat([flipped]);
  t.equal(other.usage!.prompt_tokens, one.usage!.prompt_tokens);
  t.notSame(logprobs(other), logprobs(one), 'a different image gives a different result');
  t.same(logprobs(await chat([shapes])), logprobs(one), 'the same image gives the same result');
  t.ok(
    (await chat([shapes])).usage!.prompt_tokens_details!.cached_tokens! > SHAPES_TOKENS,
    'the KV pages of the image are reused',
  );
  const low = await chat([shapes], 'low');
  t.ok(low.usage!.prompt_tokens < none.usage!.prompt_tokens + 30, 'low detail uses only the overview');
  t.equal(
    (await chat([shapes, flipped])).usage!.prompt_tokens,
    one.usage!.prompt_tokens + SHAPES_TOKENS,
    'two images count twice',
  );
  const stream = await openai.chat.completions.create({
    model: 'see',
    max_tokens: 6,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: chatParts([shapes]) }],
  });
  let streamed = '';
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  t.equal(streamed, one.choices[0]!.message.content, 'the streamed text equals the complete text');
  t.equal(usage?.prompt_tokens, one.usage!.prompt_tokens);
});

t.test('the time in the vision encoder is reported separately from the queue time', async (t) => {
  const counted = async (): Promise<number[]> => {
    const metrics = await server.metrics();
    return ['tower', 'queue'].map(
      (name) => metrics.get(`monolith_${name}_seconds_count{model="see",endpoint="/v1/chat/completions"}`) ?? 0,
    );
  };
  const asked = async (picture: Buffer, traceId: string): Promise<readonly SeenSpan[]> => {
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        model: 'see',
        max_tokens: 2,
        messages: [{ role: 'user', content: chatParts([picture]) }],
      }),
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${server.key}`,
        traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
      },
    });
    t.equal(answer.status, 200, await answer.text());
    const spans = (): SeenSpan[] => receiver.spans.filter((span) => span.traceId === traceId);
    t.ok(await eventually(() => spans().some(({ name }) => name === 'chat see')));
    return spans();
  };
  const picture = await sharp(shapes).negate().png().toBuffer();
  const [tower, queue] = (await counted()) as [number, number];
  const spans = await asked(picture, '1'.repeat(32));
  const [waited, saw, prompt] = ['queue', 'tower', 'prefill'].map(
    (name) => spans.find((span) => span.name === name)!,
  ) as [SeenSpan, SeenSpan, SeenSpan];
  t.ok(
    saw.end > saw.start && Math.abs(waited.end - saw.start) < 0.01 && Math.abs(saw.end - prompt.start) < 0.01,
    'the spans follow each other without a gap',
  );
  t.same(await counted(), [tower + 1, queue + 1]);
  t.ok(
    await eventually(() =>
      server
        .log()
        .split('\n')
        .some((line) => line.includes('1'.repeat(32)) && /"tower_ms":\d/.test(line)),
    ),
    'the log line includes the vision encoder time',
  );
  t.notOk(
    (await asked(picture, '2'.repeat(32))).some(({ name }) => name === 'tower'),
    'an image that was already encoded has no vision encoder span',
  );
  t.same(await counted(), [tower + 1, queue + 2]);
});

t.test('images in messages and in tool results are counted exactly', async (t) => {
  const tool: Anthropic.Tool = { name: 'look', input_schema: { type: 'object', properties: {} } };
  const asked: Anthropic.MessageParam[][] = [
    [{ role: 'user', content: [block(shapes), { type: 'text', text: 'What is it?' }] }],
    [
      { role: 'user', content: 'Look around.' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'toolu_1',
            content: [{ type: 'text', text: 'Here: ' }, block(shapes), block(flipped)],
          },
        ],
      },
    ],
  ];
  for (const [index, messages] of asked.entries()) {
    const body = { model: 'see', messages, tools: [tool] };
    const { input_tokens: counted } = await anthropic.messages.countTokens(body);
    const { usage } = await anthropic.messages.create({ ...body, max_tokens: 4 });
    t.equal(
      usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0),
      counted,
      'count_tokens equals the reported usage',
    );
    t.ok(counted > SHAPES_TOKENS * (index + 1));
  }
});

t.test('a response chain keeps its image, which is read from storage', async (t) => {
  const input: OpenAI.Responses.ResponseInput = [
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'Look:' },
        { type: 'input_image', image_url: dataUrl(shapes), detail: 'auto' },
      ],
    },
  ];
  const first = await openai.responses.create({ model: 'see', input, max_output_tokens: 4 });
  const counted = await openai.responses.inputTokens.count({ model: 'see', input });
  t.equal(first.usage!.input_tokens, counted.input_tokens, 'input_tokens equals the reported usage');
  const next = await openai.responses.create({
    model: 'see',
    previous_response_id: first.id,
    input: 'And now?',
    max_output_tokens: 4,
  });
  t.ok(next.usage!.input_tokens > first.usage!.input_tokens, 'the image is part of the next prompt');
  t.ok(
    next.usage!.input_tokens_details.cached_tokens >= SHAPES_TOKENS,
    'the tokens of the image come from the prefix cache',
  );
  const metrics = (await openai.models.retrieve('see')) as unknown as { input_modalities: string[] };
  t.same(metrics.input_modalities, ['text', 'image']);
});

t.test('an invalid image is refused with an error that names its position', async (t) => {
  const place = /^messages\[0\]\.content\[2\]/;
  await t.rejects(chat([shapes, shapes.subarray(0, 300)]), { status: 422, code: 'invalid_image', param: place });
  await t.rejects(chat([shapes, shapes, shapes, shapes]), {
    status: 422,
    code: 'image_too_large',
    param: /^messages\[0\]\.content\[4\]/,
    message: /more than 600 prompt tokens/,
  });
  t.match(await chat([shapes]), { object: 'chat.completion' }, 'the server still serves requests');
});

t.test(
  'damaged images are refused in all three formats with an error that names their position, and the server keeps running',
  async (t) => {
    const whole = sharp(shapes).removeAlpha();
    const [png, jpeg, webp] = await Promise.all([
      whole.clone().png().toBuffer(),
      whole.clone().jpeg().toBuffer(),
      whole.clone().webp().toBuffer(),
    ]);
    const cut = (bytes: Buffer, share: number): Buffer => bytes.subarray(0, Math.floor(bytes.length * share));
    const noise = Buffer.from(Array.from({ length: 400 }, (_, i) => (i * 7919 + 13) % 251));
    const damaged: [name: string, bytes: Buffer, code: string][] = [
      ['half a PNG', cut(png, 0.5), 'invalid_image'],
      ['half a JPEG', cut(jpeg, 0.5), 'invalid_image'],
      ['half a WebP', cut(webp, 0.5), 'invalid_image'],
      ['only the first bytes of a JPEG', jpeg.subarray(0, 20), 'invalid_image'],
      ['the first bytes of a PNG, then noise', Buffer.concat([png.subarray(0, 8), noise]), 'invalid_image'],
      ['the first bytes of a WebP, then noise', Buffer.concat([webp.subarray(0, 12), noise]), 'invalid_image'],
      ['noise', noise, 'unsupported_image_format'],
      ['a PNG with a byte before its signature', Buffer.concat([Buffer.from('\0'), png]), 'unsupported_image_format'],
      ['a PNG with width 0', pngOf(0, 8, 8), 'invalid_image'],
      ['a PNG with height 0', pngOf(8, 0, 0), 'invalid_image'],
      ['a JPEG with width and height 0', jpegWithSides(jpeg, 0, 0), 'invalid_image'],
      ['a PNG with fewer rows than its header declares', pngOf(64, 640, 20), 'invalid_image'],
      ['a 30 kB file with 900 million pixels', pngOf(30_000, 30_000, 2000), 'image_too_large'],
      ['a JPEG that declares the maximum size', jpegWithSides(jpeg, 65_500, 65_500), 'image_too_large'],
    ];
    for (const [name, bytes, code] of damaged) {
      const url = dataUrl(bytes);
      await t.rejects(
        chat([shapes, bytes]),
        { status: 422, code, param: /^messages\[0\]\.content\[2\]/ },
        `chat: ${name}`,
      );
      await t.rejects(
        openai.responses.create({
          model: 'see',
          input: [{ role: 'user', content: [{ type: 'input_image', image_url: url, detail: 'auto' }] }],
        }),
        { status: 422, code, param: /^input\[0\]\.content\[0\]/ },
        `responses: ${name}`,
      );
      await t.rejects(
        anthropic.messages.create({
          model: 'see',
          max_tokens: 4,
          messages: [{ role: 'user', content: [{ type: 'text', text: 'See' }, block(bytes)] }],
        }),
        { status: 400, message: /messages\[0\]\.content\[1\]|messages\.0\.content\.1/ },
        `messages: ${name}`,
      );
    }
    t.match(await chat([shapes]), { object: 'chat.completion' });
  },
);

t.test('images of every format and orientation are decoded correctly', async (t) => {
  const picture = sharp(shapes).removeAlpha();
  const { width, height } = await sharp(shapes).metadata();
  const turned = await picture.clone().rotate(90).withMetadata({ orientation: 8 }).png().toBuffer();
  const asked: [string, Buffer, boolean][] = [
    ['rotated by EXIF', turned, true],
    ['16 bits', await picture.clone().toColourspace('rgb16').png().toBuffer(), true],
    ['lossless WebP', await picture.clone().webp({ lossless: true }).toBuffer(), true],
    ['with an alpha channel, which is ignored', await picture.clone().ensureAlpha(0.3).png().toBuffer(), true],
    ['grey', await picture.clone().greyscale().png().toBuffer(), false],
    ['CMYK', await picture.clone().toColourspace('cmyk').jpeg().toBuffer(), false],
    ['a GIF', await picture.clone().gif().toBuffer(), false],
  ];
  t.ok(width > 0 && height > 0);
  const expected = await chat([shapes]);
  for (const [name, bytes, same] of asked) {
    const seen = await chat([bytes]);
    t.equal(seen.usage!.prompt_tokens, expected.usage!.prompt_tokens, name);
    if (same) t.same(logprobs(seen), logprobs(expected), `${name}: same result as the original image`);
  }
});
