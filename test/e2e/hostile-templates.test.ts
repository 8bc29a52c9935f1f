// Serves model files whose chat templates exceed the rendering limits, always or for some requests. The server starts,
// logs the problem, and serves everything else.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { writeCheckpoint } from '../support/checkpoint.js';
import { embeddedModel, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

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
  const broken = folder('broken', `{{ 1 }}\n{% for m in messages %}`);
  const empty = folder('empty', '');
  const perMessage = (then: string): string => `{% for m in messages %}\n{{ m.content }}\n${then}\n{% endfor %}`;
  const raises = folder(
    'raises',
    perMessage("{% if m.role == 'assistant' %}{{ raise_exception('Only questions, please!') }}{% endif %}"),
  );
  const fails = folder('fails', perMessage("{% if m.role == 'assistant' %}{{ 'a' + 1 }}{% endif %}"));
  const tools = folder('tools', `${plain}\n{% for tool in tools %}{{ tool.no.such }}{% endfor %}`);
  const ends = folder('ends', plain);
  const settings = join(ends, 'tokenizer_config.json');
  writeFileSync(settings, JSON.stringify({ ...JSON.parse(readFileSync(settings, 'utf8')), add_eos_token: true }));
  const others = { broken, empty, raises, fails, tools, ends };
  const server = await startMonolith({
    args: [
      ...Object.entries(others).flatMap(([name, path]) => ['--model', `${name}=${path}`]),
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
    /always.*chat template cannot render one user message: .*takes too many steps/,
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
    body: {
      error: {
        code: 'model_unavailable',
        message: /^always has an unusable chat template and only serves \/v1\/completions: .*takes too many steps/,
      },
    },
  });
  for (const [model, reason] of [
    ['always', /completions: chat template cannot render one user message/],
    ['broken', /completions: chat template does not parse: line 2: "for" is not closed/],
    ['empty', /completions: it is empty\./],
  ] as const) {
    t.match(await chat(model, 'hi'), { status: 503, body: { error: { code: 'model_unavailable', message: reason } } });
    t.match(await post('/v1/completions', { model, prompt: 'Hi', max_tokens: 2 }), { status: 200 }, model);
  }
  t.match(await chat('raises', 'hi'), {
    status: 422,
    body: {
      error: {
        param: 'messages[1]',
        message: "The model's chat template rejects messages[1] (role assistant): Only questions, please!",
      },
    },
  });
  t.match(await chat('fails', 'hi'), {
    status: 422,
    body: {
      error: {
        param: 'messages[1]',
        message:
          'The model\'s chat template rejects messages[1] (role assistant): line 3: can only concatenate str (not "int") to str',
      },
    },
  });
  const prompt = [{ role: 'user', content: 'hi' }];
  const lengths = await Promise.all(
    ['tools', 'ends'].map(async (model) => {
      const answer = await post('/v1/chat/completions', { model, max_tokens: 1, messages: prompt });
      const text = await post('/tokenize', { model, prompt: 'hi', add_special_tokens: true });
      return [answer.body, text.body] as { usage?: { prompt_tokens: number }; count?: number }[];
    }),
  );
  t.equal(lengths[1]?.[1]?.count, (lengths[0]?.[1]?.count ?? 0) + 1, 'the vocabulary of "ends" adds an end token');
  t.equal(lengths[1]?.[0]?.usage?.prompt_tokens, lengths[0]?.[0]?.usage?.prompt_tokens, 'but not behind a prompt');
  t.match(
    server.log(),
    /line 3: 'dict object' has no attribute 'no'","msg":"the chat template of tools fails on tool definitions/,
  );
  const beside = Array.from({ length: 8 }, () => chat('good', 'hi'));
  const message = /^The model's chat template cannot be used on (messages|input): chat template takes too many steps/;
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
