// Sends images through a whole server to a model that accepts images and to a model that rejects them.
import OpenAI from 'openai';
import sharp from 'sharp';
import t from 'tap';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startMonolith({
  env: {
    MONOLITH_MODELS: JSON.stringify({ 'clarke-1.0': { vision: null, image_input: 'note' } }),
    MONOLITH_IMAGES_MAX_BYTES: '100KiB',
  },
});
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

const png = await sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } })
  .png()
  .toBuffer();
const dataUrl = (bytes: Buffer): string => `data:image/png;base64,${bytes.toString('base64')}`;

function ask(model: string, urls: readonly string[]): Promise<OpenAI.ChatCompletion> {
  return client.chat.completions.create({
    model,
    max_tokens: 4,
    temperature: 0,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          ...urls.map((url) => ({ type: 'image_url' as const, image_url: { url } })),
        ],
      },
    ],
  });
}

t.test('a model with image_input "note" accepts images', async (t) => {
  const without = (await ask('clarke-1.0', [])).usage!.prompt_tokens;
  const one = await ask('clarke-1.0', [dataUrl(png)]);
  t.match(one.choices[0]!.finish_reason, /^(stop|length)$/);
  t.ok(one.usage!.prompt_tokens > without, 'the prompt mentions the image');
});

t.test('the embedded models with a vision encoder recognize the shapes that they were trained on', async (t) => {
  const seeing = await startMonolith();
  t.teardown(() => seeing.stop());
  const other = new OpenAI({ baseURL: `${seeing.url}/v1`, apiKey: seeing.key, maxRetries: 0 });
  const shapes: [string, RegExp][] = [
    ['<circle cx="48" cy="48" r="28" fill="#dc2828"/>', /red circle/],
    ['<rect x="24" y="24" width="48" height="48" fill="#2850dc"/>', /blue square/],
  ];
  for (const [shape, seen] of shapes) {
    const picture = await sharp(
      Buffer.from(`<svg width="96" height="96"><rect width="96" height="96" fill="white"/>${shape}</svg>`),
    )
      .png()
      .toBuffer();
    for (const model of ['hal-1.0', 'clarke-1.0']) {
      const answer = await other.chat.completions.create({
        model,
        temperature: 0,
        max_tokens: 30,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'What is in this picture?' },
              { type: 'image_url', image_url: { url: dataUrl(picture) } },
            ],
          },
        ],
      });
      t.match(answer.choices[0]!.message.content, seen, model);
    }
  }
});

t.test('a text-only model rejects images before they are parsed or fetched', async (t) => {
  for (const url of [dataUrl(png), 'data:nonsense', 'http://127.0.0.1/']) {
    await t.rejects(ask('tycho-1.0', [url]), {
      status: 422,
      code: 'model_not_vision',
      param: /^messages\[0\]\.content\[1\]/,
    });
  }
});

t.test('an image error has the code of the problem and the position of the image', async (t) => {
  const cases: [url: string, code: string][] = [
    [dataUrl(png.subarray(0, 60)), 'invalid_image'],
    ['data:image/svg+xml;base64,PHN2Zz4=', 'unsupported_image_format'],
    [dataUrl(Buffer.concat([png, Buffer.alloc(110_000)])), 'image_too_large'],
    ['https://example.com/a.png', 'image_fetch_failed'],
    ['http://169.254.169.254/latest/meta-data', 'image_fetch_failed'],
  ];
  for (const [url, code] of cases)
    await t.rejects(
      ask('clarke-1.0', [dataUrl(png), url]),
      { status: 422, code, param: /^messages\[0\]\.content\[2\]/ },
      code,
    );
  await t.rejects(
    ask(
      'clarke-1.0',
      Array.from({ length: 101 }, () => dataUrl(png)),
    ),
    { status: 422, code: 'too_many_images' },
  );
  t.match(await ask('clarke-1.0', [dataUrl(png)]), { object: 'chat.completion' }, 'the server still responds');
});
