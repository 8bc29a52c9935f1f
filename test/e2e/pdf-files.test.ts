// Tests PDF files in requests with the official clients: OpenAI's in both formats, and Anthropic's.
import Anthropic, { toFile as toAnthropicFile } from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import OpenAI7 from 'openai-7';
import t from 'tap';
import { bombOf, pdfOf } from '../support/pdf.js';
import { startScripted } from '../support/script-model.js';
import { dataFolder } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const data = dataFolder();
const server = await startScripted({ args: ['--data-dir', data.path] });
t.teardown(async () => {
  await server.stop();
  data.remove();
});
const options = { baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 };
const client = new OpenAI(options);
const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
const model = 'clarke-1.0';
const question = 'A: what is in the file?';

const pdf = pdfOf([
  ['The first page', 'has two lines.'],
  ['The second page', 'has two lines.'],
]);
const TEXT = '--- Page 1 ---\nThe first page\nhas two lines.\n\n--- Page 2 ---\nThe second page\nhas two lines.';
const base64 = pdf.toString('base64');

for (const [version, one] of [
  ['6', client],
  ['7', new OpenAI7(options) as unknown as OpenAI],
] as const)
  t.test(`openai ${version}: the text of a PDF file is part of the prompt`, async (t) => {
    const { id } = await one.files.create({
      file: await toFile(pdf, 'a.pdf', { type: 'application/pdf' }),
      purpose: 'user_data',
    });
    const shown = `\n<file name="a.pdf">\n${TEXT}\n</file>\n`;
    const chat = async (part: OpenAI.ChatCompletionContentPart): Promise<number> => {
      const content = [{ type: 'text' as const, text: question }, part];
      const body = { model, max_tokens: 4, messages: [{ role: 'user' as const, content }] };
      return (await one.chat.completions.create(body)).usage!.prompt_tokens;
    };
    const counted = await chat({ type: 'text', text: shown });
    t.equal(await chat({ type: 'file', file: { file_id: id } }), counted);
    const file = { file_data: `data:application/pdf;base64,${base64}`, filename: 'a.pdf' };
    t.equal(await chat({ type: 'file', file }), counted);
    t.equal(await chat({ type: 'file', file: { file_data: base64, filename: 'a.pdf' } }), counted);

    for (const file of [
      { file_id: id },
      { file_data: `data:application/pdf;base64,${base64}`, filename: 'a.pdf' },
      { file_data: base64, filename: 'a.pdf' },
    ]) {
      const content = [
        { type: 'input_text' as const, text: question },
        { type: 'input_file' as const, ...file },
      ];
      const { id: stored } = await one.responses.create({
        model,
        max_output_tokens: 16,
        input: [{ role: 'user', content }],
      });
      const [item] = (await one.responses.inputItems.list(stored)).data;
      t.match(item, { content: [{ text: question }, { type: 'input_text', text: shown }] });
    }
  });

t.test('the text of a PDF document is part of a Messages prompt', async (t) => {
  const { id } = await anthropic.beta.files.upload({
    file: await toAnthropicFile(pdf, 'a.pdf', { type: 'application/pdf' }),
  });
  type Source = Anthropic.Beta.BetaRequestDocumentBlock['source'];
  const ask = async (source: Source, title: string | null): Promise<number> => {
    const document = { type: 'document' as const, source, ...(title === null ? {} : { title }) };
    const messages = [{ role: 'user' as const, content: [{ type: 'text' as const, text: question }, document] }];
    const { input_tokens: counted } = await anthropic.beta.messages.countTokens({ model, messages });
    const { usage } = await anthropic.beta.messages.create({ model, max_tokens: 4, messages });
    t.equal(usage.input_tokens + (usage.cache_read_input_tokens ?? 0), counted);
    return counted;
  };
  const counted = await ask({ type: 'text', media_type: 'text/plain', data: TEXT }, 'a.pdf');
  t.equal(await ask({ type: 'file', file_id: id }, null), counted);
  t.equal(await ask({ type: 'base64', media_type: 'application/pdf', data: base64 }, 'a.pdf'), counted);
  const citing = {
    type: 'document' as const,
    source: { type: 'base64' as const, media_type: 'application/pdf' as const, data: base64 },
    citations: { enabled: true },
  };
  const { response } = await anthropic.messages
    .create({ model, max_tokens: 4, messages: [{ role: 'user', content: [citing] }] })
    .withResponse();
  t.match(response.headers.get('x-ignored-parameters'), /citations/);
  const capabilities = (await anthropic.models.retrieve(model)).capabilities!;
  t.ok(capabilities.pdf_input.supported);
  t.notOk(capabilities.citations.supported);
});

t.test('refuses PDF files without usable text with an error that names the part', async (t) => {
  const chat = (bytes: Buffer): Promise<unknown> =>
    client.chat.completions.create({
      model,
      messages: [
        {
          role: 'user',
          content: [{ type: 'file', file: { filename: 'a.pdf', file_data: bytes.toString('base64') } }],
        },
      ],
    });
  const respond = (bytes: Buffer): Promise<unknown> =>
    client.responses.create({
      model,
      input: [
        {
          role: 'user',
          content: [{ type: 'input_file', filename: 'a.pdf', file_data: bytes.toString('base64') }],
        },
      ],
    });
  const message = (bytes: Buffer): Promise<unknown> =>
    anthropic.messages.create({
      model,
      max_tokens: 4,
      messages: [
        {
          role: 'user',
          content: [
            {
              type: 'document',
              source: { type: 'base64', media_type: 'application/pdf', data: bytes.toString('base64') },
            },
          ],
        },
      ],
    });
  for (const [bytes, status, why] of [
    [pdfOf([['a']], { encrypted: true }), 422, 'is encrypted'],
    [Buffer.from('%PDF-1.7 and no more'), 422, 'is damaged'],
    [pdfOf([{ content: Buffer.from('0 0 9 9 re f') }]), 422, 'contains no text'],
    [pdfOf(Array.from({ length: 1_001 }, () => ['a'])), 413, 'has more than 1000 pages'],
    [bombOf(Buffer.alloc(2 ** 30), 3), 413, 'takes too much memory'],
  ] as const) {
    await t.rejects(chat(bytes), {
      status,
      message: new RegExp(`messages\\[0\\]\\.content\\[0\\]: the PDF file ${why}`),
    });
    await t.rejects(respond(bytes), {
      status,
      message: new RegExp(`input\\[0\\]\\.content\\[0\\]: the PDF file ${why}`),
    });
    await t.rejects(message(bytes), {
      status,
      message: new RegExp(`messages\\[0\\]\\.content\\[0\\]\\.source: the PDF file ${why}`),
    });
  }
  t.equal((await client.models.list()).object, 'list', 'the server is still running');
});
