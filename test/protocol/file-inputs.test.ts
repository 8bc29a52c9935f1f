// Tests which parts of requests are replaced by the contents of files, in each format. test/e2e/files.test.ts tests
// text files through the whole server.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { RequestMemoryBudget } from '../../src/http/request-memory-budget.js';
import { FileInputs } from '../../src/protocol/file-inputs/file-inputs.js';
import type { FileReader } from '../../src/protocol/file-inputs/file-inputs.js';
import type { FileFormat } from '../../src/protocol/file-inputs/parts.js';
import { LmdbFileContents } from '../../src/storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../../src/storage/lmdb/files/file-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

t.setTimeout(300_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-file-inputs-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const limits = { max_bytes: 2 ** 30, organization_bytes: 2 ** 31, total_bytes: 2 ** 32 };
const files = new LmdbFileStore(new LmdbFileContents(store, limits, () => Date.now() / 1000));
const memory = new RequestMemoryBudget(256 * 1024 ** 2, 32 * 1024 ** 2);
const inputs = new FileInputs(files, memory);
const reader = {
  identity: { organizationId: 'org_a' },
  aborted: false,
  charged: <T>(_bytes: number, work: () => T): T => work(),
  enqueue: <T>(_bytes: number, work: () => Promise<T>): Promise<T> => work(),
  onAborted: (): void => undefined,
};

async function add(bytes: Uint8Array, mediaType: string, filename: string): Promise<string> {
  const writer = files.create('org_a');
  await writer.write(bytes);
  return (await writer.finish({ purpose: 'user_data', filename, mediaType, expiresAt: Date.now() })).id;
}
const png = await add(Buffer.from('png'), 'image/png', 'a.png');
const note = await add(Buffer.from('words'), 'text/plain', 'a "b".txt');
const NOTE = '\n<file name="a \\"b\\".txt">\nwords\n</file>\n';
const DATA = Buffer.from('png').toString('base64');
const URL = `data:image/png;base64,${DATA}`;

/** Returns the body after its files have been replaced, and whether there were any. */
async function expanded(format: FileFormat, body: object): Promise<unknown> {
  const copy = structuredClone(body);
  const pending = inputs.expand(format, copy, reader);
  await pending;
  inputs.release(reader);
  return pending === null ? null : copy;
}

t.test('chat: files in user messages become text or images', async (t) => {
  const body = (...content: object[]): object => ({ messages: [{ role: 'user', content }] });
  t.same(
    await expanded(
      'chat',
      body(
        { type: 'text', text: 'x' },
        { type: 'file', file: { file_id: note } },
        { type: 'file', file: { file_id: png } },
      ),
    ),
    body({ type: 'text', text: 'x' }, { type: 'text', text: NOTE }, { type: 'image_url', image_url: { url: URL } }),
  );
  t.same(
    await expanded('chat', body({ type: 'file', file: { file_data: URL, filename: 'x.png' } })),
    body({ type: 'image_url', image_url: { url: URL } }),
  );
  t.equal(
    await expanded('chat', { messages: [{ role: 'assistant', content: [{ type: 'file', file: { file_id: png } }] }] }),
    null,
  );
});

t.test('responses: files in messages and tool outputs', async (t) => {
  const content = [
    { type: 'input_file', file_id: note },
    { type: 'input_image', file_id: png, detail: 'low' },
    { type: 'input_image', image_url: 'https://x.test' },
    { type: 'input_file', file_url: 'https://x.test' },
  ];
  const shown = [
    { type: 'input_text', text: NOTE },
    { type: 'input_image', image_url: URL, detail: 'low' },
    ...content.slice(2),
  ];
  t.same(
    await expanded('responses', {
      input: [
        { role: 'user', content },
        { type: 'function_call_output', call_id: 'c', output: content },
      ],
    }),
    {
      input: [
        { role: 'user', content: shown },
        { type: 'function_call_output', call_id: 'c', output: shown },
      ],
    },
  );
  t.equal(await expanded('responses', { input: 'text' }), null);
});

t.test('messages: documents and images, also within tool results and documents', async (t) => {
  const image = { type: 'image', source: { type: 'file', file_id: png } };
  const shownImage = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: DATA } };
  const document = { type: 'document', source: { type: 'file', file_id: note }, context: 'c' };
  const shownDocument = { ...document, title: 'a "b".txt', source: { type: 'text', data: 'words' } };
  const body = (one: object, other: object): object => ({
    messages: [
      {
        role: 'user',
        content: [
          one,
          other,
          {
            type: 'tool_result',
            tool_use_id: 'u',
            content: [one, other, { type: 'document', source: { type: 'content', content: [one] } }],
          },
          { type: 'document', source: { type: 'content', content: [one] } },
        ],
      },
    ],
  });
  t.same(await expanded('messages', body(image, document)), body(shownImage, shownDocument));
  await t.rejects(
    expanded('messages', { messages: [{ role: 'user', content: [{ ...document, source: image.source }] }] }),
    { status: 422, code: 'unsupported_content', param: 'messages[0].content[0].source' },
  );
});

t.test('the number and the total size of files are limited', async (t) => {
  const body = (id: string, count: number): object => ({
    messages: [
      { role: 'user', content: Array.from({ length: count }, () => ({ type: 'file', file: { file_id: id } })) },
    ],
  });
  await t.rejects(expanded('chat', body(note, 101)), {
    status: 422,
    code: 'invalid_value',
    param: 'messages[0].content[100]',
  });
  const large = await add(Buffer.alloc(40 * 1024 ** 2, 'x'), 'text/plain', 'large.txt');
  await t.rejects(expanded('chat', body(large, 2)), {
    status: 413,
    code: 'file_too_large',
    param: 'messages[0].content[1]',
  });
});

t.test('the files of a request count toward the memory for request bodies until they are released', async (t) => {
  const bytes = 20 * 1024 ** 2;
  const large = await add(Buffer.alloc(bytes, 'x'), 'text/plain', 'large.txt');
  const body = (): object => ({ messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: large } }] }] });
  const small = new RequestMemoryBudget(60 * 1024 ** 2, 16 * 1024 ** 2);
  const limited = new FileInputs(files, small);
  const left: (() => void)[] = [];
  const another = (): FileReader => ({ ...reader, onAborted: (callback) => void left.push(callback) });
  const first = another();
  t.equal(await limited.expand('chat', body(), first), bytes);
  t.equal(small.taken, bytes);
  await t.rejects(limited.expand('chat', body(), another())!, { status: 503, code: 'capacity_exhausted' });
  t.equal(small.taken, bytes, 'a refused request reserves nothing');
  limited.release(first);
  t.equal(await limited.expand('chat', body(), another()), bytes);
  for (const leave of left) leave();
  t.equal(small.taken, 0, 'a client that disconnects frees the memory');
  const content = [1, 2].map(() => ({ type: 'file', file: { file_id: large } }));
  await t.rejects(
    limited.expand('chat', { messages: [{ role: 'user', content }] }, another())!,
    { status: 413, code: 'file_too_large' },
    'a request that could never fit is not to be retried',
  );
  t.equal(small.taken, 0);
});

t.test('everything that does not have the expected form is left alone', async (t) => {
  for (const format of ['chat', 'responses', 'messages'] as const)
    for (const body of [
      null,
      [],
      {},
      { messages: {}, input: {} },
      { messages: [null, 1, []], input: [null, 1, []] },
      {
        messages: [
          { role: 'user', content: [null, { type: 'file' }, { type: 'file', file: 1 }, { type: 'document' }] },
        ],
      },
      { input: [{ content: [{ type: 'input_file', file_id: 1 }, { type: 'input_image' }] }] },
    ])
      t.equal(inputs.expand(format, body, reader), null);
});
