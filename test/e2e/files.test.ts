// Tests files and uploads with the official clients: the oldest and newest supported versions of OpenAI's client, and
// Anthropic's client. Also tests requests of all formats that refer to files.
import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import Anthropic, { toFile as toAnthropicFile } from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import OpenAI7 from 'openai-7';
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { dataFolder, keyOf } from './stored-server.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const MIB = 1024 ** 2;
const data = dataFolder();
const args = ['--data-dir', data.path, '--files-max-bytes', '3MiB', '--files-organization-bytes', '6MiB'];
const server = await startScripted({ args });
t.teardown(async () => {
  await server.stop();
  data.remove();
});
const options = { baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 };
const client = new OpenAI(options);
const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
const model = 'clarke-1.0';
const bytesOf = (length: number): Buffer => Buffer.alloc(length, 'monolith files ');
const fileOf = (bytes: Buffer | string, name = 'a.txt', type = 'text/plain'): Promise<File> =>
  toFile(typeof bytes === 'string' ? Buffer.from(bytes) : bytes, name, { type });

async function removeAll(): Promise<void> {
  for await (const { id } of client.files.list()) await client.files.delete(id);
}
t.afterEach(removeAll);

for (const [version, one] of [
  ['6', client],
  ['7', new OpenAI7(options) as unknown as OpenAI],
] as const) {
  t.test(`openai ${version}: files are uploaded, listed, retrieved, downloaded and deleted`, async (t) => {
    const bytes = bytesOf(MIB + 12_345);
    const created = await one.files.create({
      file: await fileOf(bytes, 'réponse "1".jsonl', 'application/jsonl'),
      purpose: 'batch',
      expires_after: { anchor: 'created_at', seconds: 7_200 },
    });
    t.match(created, { object: 'file', bytes: bytes.length, filename: 'réponse "1".jsonl', purpose: 'batch' });
    t.equal(created.expires_at, created.created_at + 7_200);
    t.same(await one.files.retrieve(created.id), created);
    const content = await one.files.content(created.id);
    t.equal(content.headers.get('content-length'), String(bytes.length));
    t.ok(Buffer.from(await content.arrayBuffer()).equals(bytes));
    const other = await one.files.create({ file: await fileOf('x'), purpose: 'user_data' });
    t.equal(other.expires_at, other.created_at + 30 * 86_400);
    const listed: string[] = [];
    for await (const file of one.files.list({ limit: 1, order: 'asc' })) listed.push(file.id);
    t.same(listed, [created.id, other.id]);
    t.same((await one.files.list({ purpose: 'batch' })).data, [created]);
    t.match(await one.files.delete(created.id), { id: created.id, object: 'file', deleted: true });
    await t.rejects(one.files.retrieve(created.id), { status: 404, code: 'file_not_found' });
    await t.rejects(one.files.content(created.id), { status: 404, code: 'file_not_found' });
  });

  t.test(`openai ${version}: a file is uploaded in parts`, async (t) => {
    const [first, second] = [bytesOf(MIB + 1), Buffer.from('the end')];
    const whole = Buffer.concat([first, second]);
    const upload = await one.uploads.create({
      bytes: whole.length,
      filename: 'parts.txt',
      mime_type: 'text/plain',
      purpose: 'user_data',
    });
    t.match(upload, { object: 'upload', status: 'pending', expires_at: upload.created_at + 3_600 });
    const part = async (bytes: Buffer): Promise<string> =>
      (await one.uploads.parts.create(upload.id, { data: await fileOf(bytes) })).id;
    const b = await part(second);
    const a = await part(first);
    const md5 = createHash('md5').update(whole).digest('hex');
    await t.rejects(one.uploads.complete(upload.id, { part_ids: [a] }), {
      status: 422,
      code: 'invalid_value',
      param: 'part_ids',
    });
    await t.rejects(one.uploads.complete(upload.id, { part_ids: [a, a] }), {
      status: 422,
      code: 'invalid_value',
      param: 'part_ids[1]',
    });
    await t.rejects(one.uploads.complete(upload.id, { part_ids: [b, a], md5 }), {
      status: 422,
      code: 'invalid_value',
      param: 'md5',
    });
    const done = await one.uploads.complete(upload.id, { part_ids: [a, b], md5 });
    t.match(done, { status: 'completed', file: { bytes: whole.length, filename: 'parts.txt' } });
    const content = await one.files.content(done.file!.id);
    t.ok(Buffer.from(await content.arrayBuffer()).equals(whole));
    await t.rejects(one.uploads.cancel(upload.id), { status: 422, code: 'invalid_value' });
    const second_ = await one.uploads.create({ bytes: 1, filename: 'x', mime_type: 'text/plain', purpose: 'batch' });
    t.match(await one.uploads.cancel(second_.id), { status: 'cancelled' });
    await t.rejects(one.uploads.parts.create(second_.id, { data: await fileOf('x') }), {
      status: 422,
      code: 'invalid_value',
    });
  });
}

t.test('anthropic: files are uploaded, listed, downloaded and deleted', async (t) => {
  const ids: string[] = [];
  for (const name of ['a.txt', 'b.txt', 'c.txt']) {
    const file = await toAnthropicFile(Buffer.from(name), name, { type: 'text/plain' });
    const created = await anthropic.beta.files.upload({ file, betas: ['files-api-2025-04-14'] });
    t.match(created, { type: 'file', filename: name, mime_type: 'text/plain', size_bytes: 5, downloadable: true });
    t.same(await anthropic.beta.files.retrieveMetadata(created.id), created);
    ids.unshift(created.id);
  }
  const listed: string[] = [];
  for await (const file of anthropic.beta.files.list({ limit: 2 })) listed.push(file.id);
  t.same(listed, ids, 'the newest file is first');
  const page = async (query: string): Promise<unknown> => {
    const response = await fetch(`${server.url}/v1/files?${query}`, {
      headers: { 'x-api-key': server.key, 'anthropic-version': '2023-06-01' },
    });
    const body = (await response.json()) as { data: { id: string }[]; has_more: boolean };
    return [body.data.map(({ id }) => id), body.has_more];
  };
  t.same(await page(`limit=1&after_id=${ids[0]}`), [[ids[1]], true]);
  t.same(await page(`limit=1&before_id=${ids[2]}`), [[ids[1]], true]);
  t.same(await page(`limit=5&before_id=${ids[1]}`), [[ids[0]], false]);
  t.same(await page(`ids[]=${ids[2]}&ids[]=file-unknown`), [[ids[2]], false]);
  const content = await anthropic.beta.files.download(ids[0]!);
  t.equal(await content.text(), 'c.txt');
  t.match(await anthropic.beta.files.delete(ids[0]!), { id: ids[0], type: 'file_deleted' });
  await t.rejects(anthropic.beta.files.retrieveMetadata(ids[0]!), { status: 404, message: /not_found_error/ });
});

t.test('returns the errors of each API for files over a limit, and stores nothing', async (t) => {
  await t.rejects(client.files.create({ file: await fileOf(bytesOf(3 * MIB + 1)), purpose: 'batch' }), {
    status: 413,
    code: 'file_too_large',
  });
  for (let count = 0; count < 2; count++)
    await client.files.create({ file: await fileOf(bytesOf(3 * MIB)), purpose: 'batch' });
  await t.rejects(client.files.create({ file: await fileOf('x'), purpose: 'batch' }), {
    status: 400,
    code: 'storage_quota_exceeded',
  });
  const file = await toAnthropicFile(Buffer.from('x'), 'x.txt');
  await t.rejects(anthropic.beta.files.upload({ file }), { status: 400, name: 'StorageQuotaExceededError' });
  await removeAll();
  await client.files.create({ file: await fileOf(bytesOf(3 * MIB)), purpose: 'batch' });
});

t.test('refuses invalid forms with an error that names the field', async (t) => {
  const post = async (form: FormData): Promise<unknown> => {
    const response = await fetch(`${server.url}/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}` },
      body: form,
    });
    const { error } = (await response.json()) as { error: { code: string; param: string | null } };
    return [response.status, error.code, error.param];
  };
  const form = (fields: Record<string, string | Blob>): FormData => {
    const result = new FormData();
    for (const [name, value] of Object.entries(fields)) result.append(name, value);
    return result;
  };
  const file = new Blob(['x']);
  t.same(await post(form({ purpose: 'batch' })), [400, 'missing_required_parameter', 'file']);
  t.same(await post(form({ file })), [400, 'missing_required_parameter', 'purpose']);
  t.same(await post(form({ file, purpose: 'fun' })), [422, 'invalid_value', 'purpose']);
  t.same(await post(form({ file: 'x', purpose: 'batch' })), [400, 'invalid_type', 'file']);
  t.same(await post(form({ data: file, purpose: 'batch' })), [422, 'invalid_value', 'file']);
  t.same(await post(form({ file, purpose: 'x'.repeat(100_000) })), [413, 'request_too_large', null]);
  t.same(await post(form({ file, purpose: 'batch', 'expires_after[seconds]': '7200' })), [
    400,
    'missing_required_parameter',
    'expires_after.anchor',
  ]);
  t.equal((await client.files.list()).data.length, 0);
});

t.test('erases an upload when its client disconnects', async (t) => {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.write(
    `POST /v1/files HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${server.key}\r\n` +
      'Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 3000000\r\n\r\n' +
      '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n',
  );
  socket.write(bytesOf(2 * MIB + 100));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  socket.destroy();
  // Two files of the maximum size fit into the organization's storage only if the upload has been erased.
  await eventually(async () => {
    const files = [];
    try {
      for (let count = 0; count < 2; count++)
        files.push(await client.files.create({ file: await fileOf(bytesOf(3 * MIB)), purpose: 'batch' }));
      return true;
    } catch {
      for (const { id } of files) await client.files.delete(id);
      return false;
    }
  });
  t.equal((await client.files.list()).data.length, 2);
});

t.test('refuses access to another organization and to a key without the scopes', async (t) => {
  const { id } = await client.files.create({ file: await fileOf('secret'), purpose: 'user_data' });
  const stranger = new OpenAI({ ...options, apiKey: await keyOf(data.path, 'second') });
  await t.rejects(stranger.files.retrieve(id), { status: 404, code: 'file_not_found' });
  await t.rejects(stranger.files.content(id), { status: 404, code: 'file_not_found' });
  await t.rejects(stranger.files.delete(id), { status: 404, code: 'file_not_found' });
  t.equal((await stranger.files.list()).data.length, 0);
  const content = [{ type: 'file' as const, file: { file_id: id } }];
  await t.rejects(stranger.chat.completions.create({ model, messages: [{ role: 'user', content }] }), {
    status: 404,
    code: 'file_not_found',
  });
  const reader = new OpenAI({ ...options, apiKey: await keyOf(data.path, 'first', { scopes: ['files.read'] }) });
  t.equal((await reader.files.retrieve(id)).id, id);
  await t.rejects(reader.files.delete(id), { status: 403, code: 'endpoint_not_allowed' });
  await t.rejects(reader.files.create({ file: await fileOf('x'), purpose: 'batch' }), {
    status: 403,
    code: 'endpoint_not_allowed',
  });
  await t.rejects(reader.chat.completions.create({ model, messages: [{ role: 'user', content }] }), {
    status: 403,
    code: 'endpoint_not_allowed',
  });
});

t.test('requests of all formats include text files in the prompt and its token count', async (t) => {
  const text = 'one two three '.repeat(50);
  const { id } = await client.files.create({ file: await fileOf(text), purpose: 'user_data' });
  const base64 = Buffer.from(text).toString('base64');
  const question = 'A: what is in the file?';
  const plain = (
    await client.chat.completions.create({ model, max_tokens: 4, messages: [{ role: 'user', content: question }] })
  ).usage!.prompt_tokens;
  const chat = async (file: object): Promise<number> => {
    const content = [
      { type: 'text', text: question },
      { type: 'file', file },
    ] as OpenAI.ChatCompletionContentPart[];
    const body = { model, max_tokens: 4, messages: [{ role: 'user' as const, content }] };
    return (await client.chat.completions.create(body)).usage!.prompt_tokens;
  };
  const counted = await chat({ file_id: id });
  t.ok(counted > plain + 100, `${counted} tokens with the file, ${plain} without`);
  t.equal(await chat({ file_data: `data:text/plain;base64,${base64}`, filename: 'a.txt' }), counted);

  const respond = async (file: object): Promise<number> => {
    const input = [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: question },
          { type: 'input_file', ...file },
        ],
      },
    ];
    const body = { model, max_output_tokens: 16, input } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    return (await client.responses.create(body)).usage!.input_tokens;
  };
  t.ok((await respond({ file_id: id })) > plain + 100);
  t.ok((await respond({ file_data: base64, filename: 'a.txt' })) > plain + 100);

  const messages = [
    {
      role: 'user' as const,
      content: [
        { type: 'text' as const, text: question },
        { type: 'document' as const, source: { type: 'file' as const, file_id: id } },
      ],
    },
  ];
  const tokens = await anthropic.beta.messages.countTokens({ model, messages });
  t.ok(tokens.input_tokens > plain + 100);
  const message = await anthropic.beta.messages.create({ model, max_tokens: 4, messages });
  const { input_tokens: fresh, cache_read_input_tokens: cached } = message.usage;
  t.equal(fresh + (cached ?? 0), tokens.input_tokens);
});

t.test('refuses files that cannot be read with an error that names the part', async (t) => {
  const archive = await client.files.create({
    file: await fileOf('PK', 'a.zip', 'application/zip'),
    purpose: 'user_data',
  });
  const broken = await client.files.create({
    file: await fileOf(Buffer.from([0xff, 0xfe, 0xfd]), 'b.txt'),
    purpose: 'user_data',
  });
  const chat = (file: object): Promise<unknown> =>
    client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: [{ type: 'file', file }] }],
    });
  const param = 'messages[0].content[0]';
  await t.rejects(chat({ file_id: archive.id }), { status: 422, code: 'unsupported_content', param });
  await t.rejects(chat({ file_id: broken.id }), { status: 422, code: 'invalid_value', param });
  await t.rejects(chat({ file_id: 'file-unknown' }), { status: 404, code: 'file_not_found', param });
  await t.rejects(chat({ file_data: '!', filename: 'a.txt' }), { status: 422, code: 'invalid_value', param });
  await t.rejects(chat({ file_data: 'AAAA' }), { status: 422, code: 'unsupported_content', param });
  await t.rejects(chat({}), { status: 422, code: 'unsupported_content', param });
});
