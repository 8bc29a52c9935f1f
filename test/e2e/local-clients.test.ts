// Tests features that clients of llama-server and of model hubs use: model names with a slash, GGUF version 2, and the
// rendered prompt.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ask, get } from '../support/wire.js';
import { embeddedModel, root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const folder = mkdtempSync(join(tmpdir(), 'monolith-gguf-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const second = join(folder, 'version-2.gguf');
const bytes = readFileSync(embeddedModel);
bytes.writeUInt32LE(2, 4);
writeFileSync(second, bytes);

const withFirstToken = join(root, 'test', 'data', 'vectors', 'models', 'llama.q8_0.gguf');
const server = await startMonolith({
  args: [
    ...['--model', `third=${embeddedModel}`],
    ...['--model', `org/second=${second}`],
    ...['--model', `llama=${withFirstToken}`],
  ],
});
t.teardown(() => server.stop());

t.test('a file of GGUF version 2 gives the same tokens', async (t) => {
  t.equal(readFileSync(embeddedModel).readUInt32LE(4), 3);
  const tokens = async (model: string): Promise<unknown> => {
    const { status, text, body } = await ask(server, '/v1/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'What is the capital of France?' }],
      seed: 1,
      max_tokens: 40,
      logprobs: true,
      return_token_ids: true,
    });
    t.equal(status, 200, text);
    return (body as { choices: unknown }).choices;
  };
  t.same(await tokens('org/second'), await tokens('third'));
});

t.test('a model name may have a plain or an escaped slash in the path', async (t) => {
  for (const path of ['/v1/models/org/second', '/v1/models/org%2Fsecond', '/v1/models/org/second/']) {
    const { status, body } = await get(server, path);
    t.equal(status, 200, path);
    t.match(body, { id: 'org/second' }, path);
  }
  for (const path of ['/v1/models/org/none', '/v1/models/org/second/more']) {
    const { status, body } = await get(server, path);
    t.equal(status, 404);
    t.match(body, { error: { code: 'model_not_found' } }, path);
  }
  t.match((await get(server, '/v1/models/org//second')).body, { error: { code: 'unknown_endpoint' } });
  const { headers, body } = await get(server, '/v1/models/org/second', {}, 'DELETE');
  t.match(body, { error: { code: 'method_not_allowed' } });
  t.equal(headers.get('allow'), 'GET, HEAD, OPTIONS');
});

t.test('/apply-template returns the prompt, which a text completion accepts', async (t) => {
  const chat = {
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi <|im_end|>' },
    ],
  };
  for (const model of ['third', 'llama']) {
    const applied = await ask(server, '/apply-template', { model, ...chat });
    t.equal(applied.status, 200, applied.text);
    const { prompt } = applied.body as { prompt: string };
    t.match(prompt, /Be brief\.[^]*Hi /);
    const tokens = async (body: object): Promise<unknown> =>
      ((await ask(server, '/tokenize', { model, ...body })).body as { tokens: unknown }).tokens;
    const plain = { messages: [{ role: 'user', content: 'Hi' }] };
    const { prompt: text } = (await ask(server, '/apply-template', { model, ...plain })).body as { prompt: string };
    t.same(await tokens({ prompt: text }), await tokens(plain), `${model}: the first token is added once`);
  }
  const tool = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } };
  const { body } = await ask(server, '/apply-template', { model: 'third', ...chat, tools: [tool] });
  t.match((body as { prompt: string }).prompt, /get_weather/, 'other fields of chat completions apply');
  const missing = await ask(server, '/apply-template', { model: 'third' });
  t.equal(missing.status, 400);
  t.match(missing.body, { error: { param: 'messages' } });
  const anonymous = await fetch(`${server.url}/apply-template`, { method: 'POST', body: JSON.stringify(chat) });
  t.equal(anonymous.status, 401);
});
