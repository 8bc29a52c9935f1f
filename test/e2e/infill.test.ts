// Tests POST /infill, in llama-server's format.
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { startScripted } from '../support/script-model.js';
import { events, post, ask as wire } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const filled = ['x = 1', '\n', 'return x'];
const server = await startScripted({
  models: ['coder'],
  scripts: {
    A: ['nothing'],
    F: ['<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>', ...filled],
    T: ['none'],
  },
});
t.teardown(() => server.stop());
const plain = await startScripted();
t.teardown(() => plain.stop());
const gap = { input_prefix: 'def f():\n    ', input_suffix: '\n', n_predict: 4, temperature: 0 };

interface Infill {
  content: string;
  tokens: number[];
  stop: boolean;
  stop_type: string;
  tokens_predicted: number;
  tokens_evaluated: number;
  timings: Record<string, number>;
}
const ask = async (change: object = {}, on = server): Promise<{ status: number; headers: Headers; body: Infill }> => {
  const response = await fetch(`${on.url}/infill`, {
    method: 'POST',
    headers: { authorization: `Bearer ${on.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...gap, ...change }),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Infill };
};
const countOf = async (prompt: string): Promise<number> =>
  ((await wire(server, '/tokenize', { prompt })).body as { count: number }).count;

t.test('fills a gap, streamed or not', async (t) => {
  const { status, headers, body } = await ask({ cache_prompt: true });
  t.equal(status, 200);
  t.equal(headers.get('x-ignored-parameters'), null);
  publishedAnswers.Infill.parse(body);
  t.equal(body.stop, true);
  t.equal(
    body.tokens_evaluated,
    (await countOf(gap.input_prefix + gap.input_suffix)) + 3,
    'the text and three markers',
  );
  t.ok(body.tokens_predicted <= 4 && body.timings['predicted_n'] === body.tokens_predicted);

  const parts = (await events(await post(server, '/infill', { ...gap, stream: true }))).map(
    ({ data }) => JSON.parse(data) as Infill,
  );
  for (const part of parts) publishedAnswers.Infill.parse(part);
  t.equal(parts.map(({ content }) => content).join(''), body.content);
  t.same(
    parts.map(({ stop }) => stop),
    [...parts.slice(1).map(() => false), true],
  );
  t.match(parts.at(-1), { stop_type: body.stop_type, tokens_evaluated: body.tokens_evaluated });
});

t.test('the prompt follows the prefix, and other files precede it', async (t) => {
  const { tokens_evaluated: whole } = (await ask()).body;
  t.equal((await ask({ input_prefix: 'def f():\n', prompt: '    ' })).body.tokens_evaluated, whole);
  const files = await ask({ input_extra: [{ filename: 'a.py', text: 'y = 2' }, { text: 'z' }] });
  t.equal(
    files.body.tokens_evaluated - whole,
    (await countOf('--- a.py ---\ny = 2\n\n')) + (await countOf('--- file ---\nz\n\n')),
  );
});

t.test('options are honored, refused or named', async (t) => {
  const { body } = await ask({ n_predict: 2, return_tokens: true });
  t.equal(body.stop_type, 'limit');
  t.equal(body.tokens.length, 2);
  t.equal((await ask({ n_predict: 0 })).body.content, '');
  const stop = body.content.slice(0, 1);
  t.match((await ask({ stop: [stop] })).body, { content: '', stop_type: 'word', stopping_word: stop });
  const named = await ask({ n_indent: 2, t_max_predict_ms: 5, cache_prompt: false, id_slot: -1, samplers: ['top_k'] });
  t.equal(named.headers.get('x-ignored-parameters'), 'n_indent, t_max_predict_ms, samplers, cache_prompt');
  const refused = async (change: object, code: string, param: string, on = server): Promise<void> => {
    t.match((await ask(change, on)).body, { error: { code, param } });
  };
  await refused({ input_suffix: undefined }, 'missing_required_parameter', 'input_suffix');
  await refused({ input_extra: [{ filename: 'x' }] }, 'missing_required_parameter', 'input_extra[0].text');
  await refused({ n_predict: 'x' }, 'invalid_type', 'n_predict');
  await refused({ dry_multiplier: 1 }, 'unsupported_parameter', 'dry_multiplier');
  await refused({ model: 'other' }, 'model_not_found', 'model');
  await refused({ input_prefix: 'x'.repeat(40_000) }, 'context_length_exceeded', 'input_prefix');
  await refused({}, 'missing_required_parameter', 'model', plain);
  await refused({ model: 'hal-1.0' }, 'unsupported_value', 'input_suffix', plain);
});
