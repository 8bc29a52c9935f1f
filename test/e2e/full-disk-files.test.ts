// Tests files and batches on a full disk: writes are refused with 503 in the format of each API, reads still work, and
// everything continues when there is space again.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';
import { dataFolder } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const model = 'clarke-1.0';
const data = dataFolder();
t.teardown(() => data.remove());
const full = join(data.path, 'full');
const server = await startScripted({
  models: [model],
  env: {
    MONOLITH_DATA_DIR: data.path,
    LD_PRELOAD: join(packageRoot, 'build', 'Release', 'libstorage_faults.so'),
    FAULT_FILE: '/db/data.mdb',
    FAULT_FROM: full,
    FAULT_AT: '1',
    FAULT_HOW: 'full',
    FAULT_SEEN: join(data.path, 'seen'),
  },
});
t.teardown(() => server.stop());
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });

const body = {
  model,
  reasoning_effort: 'none',
  max_completion_tokens: 12_000,
  messages: [{ role: 'user', content: 'L: story' }],
};
const input = JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body });
const upload = async (text: string): Promise<OpenAI.FileObject> =>
  openai.files.create({ file: await toFile(Buffer.from(text), 'a.jsonl'), purpose: 'batch' });
const createBatch = (input_file_id: string): Promise<OpenAI.Batch> =>
  openai.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' });
const REFUSED = { status: 503, code: 'maintenance', message: /cannot store data/ };

t.test('on a full disk, files and batches are refused with 503, and a running batch waits', async (t) => {
  const file = await upload(input);
  const batch = await createBatch(file.id);
  t.ok(await eventually(async () => (await openai.batches.retrieve(batch.id)).status === 'in_progress', 60_000));
  // Wait until commits are rare. If the disk became full during a commit, the commit would fail at its last step, which
  // does not happen on a real full disk.
  await new Promise((resolve) => setTimeout(resolve, 500));
  writeFileSync(full, '');
  await t.rejects(upload('small'), REFUSED);
  await t.rejects(upload('large '.repeat(1_000_000)), REFUSED);
  await t.rejects(createBatch(file.id), REFUSED);
  await t.rejects(
    openai.uploads.create({ bytes: 10, filename: 'u', mime_type: 'text/plain', purpose: 'batch' }),
    REFUSED,
  );
  const params = { model, max_tokens: 10, messages: [{ role: 'user' as const, content: 'A: x' }] };
  const refused: unknown = await anthropic.messages.batches
    .create({ requests: [{ custom_id: 'a', params }] })
    .catch((error: unknown) => error);
  t.match(refused, { status: 503, error: { type: 'error', error: { message: REFUSED.message } } });
  t.equal((await openai.files.retrieve(file.id)).id, file.id, 'reads still work');
  t.equal((await (await openai.files.content(file.id)).text()).length, input.length);
  const response = await openai.chat.completions.create({ ...body, max_completion_tokens: 5 } as never);
  t.ok((response as OpenAI.ChatCompletion).choices[0]);
  await new Promise((resolve) => setTimeout(resolve, 3_000)); // results cannot be stored meanwhile

  rmSync(full);
  t.equal((await upload('small')).bytes, 5);
  t.ok(await eventually(async () => (await openai.batches.retrieve(batch.id)).status === 'completed', 120_000));
  const { request_counts, output_file_id } = await openai.batches.retrieve(batch.id);
  t.match(request_counts, { total: 1, completed: 1, failed: 0 });
  const output = JSON.parse(await (await openai.files.content(output_file_id!)).text()) as {
    response: { body: OpenAI.ChatCompletion };
  };
  t.equal(output.response.body.usage!.completion_tokens, 12_000);
  t.equal(server.process.exitCode, null, 'the server is still the same process');
});
