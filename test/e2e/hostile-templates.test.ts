// Serves model files whose chat templates exceed the rendering limits, always or for some requests. The server starts,
// logs the problem, and serves everything else.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { writeCheckpoint } from '../support/checkpoint.js';
import { embeddedModel, startMonolith } from './monolith.js';

t.setTimeout(300_000); // The timeout is long because the machine may be busy.

const scratch = mkdtempSync(join(tmpdir(), 'monolith-templates-'));
t.teardown(() => rmSync(scratch, { recursive: true, force: true }));

const doubling = `{{ 'a'${" | replace('a', 'aa')".repeat(60)} }}`;
const plain = '{% for m in messages %}{{ m.content }}\n{% endfor %}';

function folder(name: string, template: string): string {
  const path = join(scratch, name);
  if (name === 'always') writeCheckpoint(embeddedModel, path, 1);
  else cpSync(join(scratch, 'always'), path, { recursive: true });
  writeFileSync(join(path, 'chat_template.jinja'), template);
  return path;
}

t.test('a chat template over the rendering limits fails only its own model or request', async (t) => {
  const always = folder('always', plain + doubling);
  const sometimes = folder('sometimes', `${plain}{% if messages[-1].content == 'go' %}${doubling}{% endif %}`);
  const server = await startMonolith({
    args: [
      '--model',
      `always=${always}`,
      '--model',
      `sometimes=${sometimes}`,
      '--model',
      `good=${embeddedModel}`,
      '--threads',
      '1',
    ],
  });
  t.teardown(() => server.stop());
  t.match(
    server.log(),
    /always.*chat template cannot render one user message: .*takes too much/,
    'the startup log has the name of the model and the reason',
  );

  const post = async (
    path: string,
    body: object,
  ): Promise<{ status: number; body: { error?: { type: string; code: string; message: string; param: string } } }> => {
    const response = await fetch(server.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.key}`,
        'content-type': 'application/json',
        'anthropic-version': '2023-06-01',
      },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as object };
  };
  const chat = (model: string, content: string) =>
    post('/v1/chat/completions', {
      model,
      max_tokens: 2,
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'yes' },
        { role: 'user', content },
      ],
    });

  t.match(await chat('always', 'hi'), {
    status: 503,
    body: { error: { code: 'model_unavailable', message: 'always has an unusable chat template.' } },
  });
  const beside = Array.from({ length: 8 }, () => chat('good', 'hi'));
  const message = /^The model's chat template cannot be used on (messages|input): chat template takes too much/;
  for (let again = 0; again < 3; again++) {
    t.match(await chat('sometimes', 'go'), {
      status: 422,
      body: { error: { code: 'invalid_value', param: 'messages', message } },
    });
    t.match(
      await post('/v1/messages', { model: 'sometimes', max_tokens: 2, messages: [{ role: 'user', content: 'go' }] }),
      { status: 422, body: { type: 'error', error: { type: 'unprocessable_entity', message } } },
    );
    t.match(
      await post('/v1/messages/count_tokens', { model: 'sometimes', messages: [{ role: 'user', content: 'go' }] }),
      { body: { type: 'error', error: { message } } },
    );
    t.match(await post('/v1/responses', { model: 'sometimes', max_output_tokens: 16, input: 'go' }), {
      status: 422,
      body: { error: { message } },
    });
  }
  for (const answer of await Promise.all(beside)) t.match(answer, { status: 200 });
  t.match(await chat('sometimes', 'hi'), { status: 200 });
});
