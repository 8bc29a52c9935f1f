// Tests POST /v1/decisions with the official client. The expected probabilities are computed from the log probabilities
// that /v1/completions returns for the same prompt followed by each answer.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI, { APIError } from 'openai-7';
import type { Decision, DecisionCreateParams } from 'openai-7/resources/decisions';
import sharp from 'sharp';
import t from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { ask } from '../support/wire.js';
import { eventually, root, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const model = 'tycho-1.0';
const vision = join(root, 'test', 'data', 'vision');
const server = await startMonolith({
  args: [
    ...['--model', `${model}=${join(root, 'models', `${model}-q8_0.gguf`)}`],
    ...['--model', `see=${join(vision, 'text-llama-bpe.gguf')}`],
    ...['--model', `embed=${join(root, 'models', 'discovery-embed-1.0.gguf')}`],
  ],
  env: {
    MONOLITH_LIMITS_RPM: 'off',
    MONOLITH_LIMITS_TPM: 'off',
    MONOLITH_LIMITS_CONCURRENCY: 'off',
    MONOLITH_MODELS: JSON.stringify({ far: { upstream: { url: 'http://127.0.0.1:9/v1' } } }),
  },
});
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

type Questions = DecisionCreateParams['questions'];
type Question = Questions[number];
const input = 'The soup was cold and the waiter rude.';
const predicate = { type: 'predicate', instructions: 'The review is negative.' } as const;
const choice = {
  type: 'choice',
  name: 'topic',
  instructions: 'What is the review about?',
  choices: [{ value: 'food', description: 'meals and drinks' }, { value: 'cars' }, { value: true }, { value: 'true' }],
} satisfies Question;
const score = {
  type: 'score',
  instructions: 'How happy is the guest?',
  levels: [{ label: 'unhappy' }, { label: 'neutral', description: 'neither' }, { label: 'happy' }],
} satisfies Question;

const decide = (questions: Questions, more: Partial<DecisionCreateParams> = {}): Promise<Decision> =>
  client.decisions.create({ model, input, questions, ...more });

function probabilities(answer: Decision['answers'][number] | undefined): number[] {
  if (answer?.type === 'predicate') return [answer.probability, 1 - answer.probability];
  if (answer?.type === 'choice' || answer?.type === 'score')
    return answer.probabilities.map(({ probability }) => probability);
  throw new Error('the question has no answer');
}

const choiceText = (options: readonly string[]): string =>
  `Choose one of these options:\n${options.join('\n')}\n\nReply with the letter of one option.`;

/** The prompt of a conversation that ends with a question and the start of the answer. */
async function promptOf(messages: readonly object[]): Promise<string> {
  const { body } = await ask(server, '/apply-template', {
    model,
    messages: [...messages, { role: 'assistant', content: 'Answer:' }],
    continue_final_message: true,
    add_generation_prompt: false,
    reasoning_effort: 'none',
  });
  return (body as { prompt: string }).prompt;
}

async function tokensOf(prompt: string): Promise<number> {
  return ((await ask(server, '/tokenize', { model, prompt })).body as { count: number }).count;
}

/**
 * The first codes that the server uses for answers: letters, and then pairs of letters, that are one token after the
 * lead.
 */
async function codesOf(count: number): Promise<string[]> {
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];
  const small = letters.map((letter) => letter.toLowerCase());
  const pairs = (first: string[], second: string[]): string[] =>
    first.flatMap((one) => second.map((other) => one + other));
  const lead = await tokensOf('Answer:');
  const codes: string[] = [];
  for (const code of [...letters, ...pairs(letters, letters), ...pairs(letters, small), ...pairs(small, small)]) {
    if (codes.length === count) break;
    if ((await tokensOf(`Answer: ${code}`)) === lead + 1) codes.push(code);
  }
  return codes;
}

/** The codes of a predicate, and the question that asks for them. */
async function predicateCodes(): Promise<{ codes: [string, string]; question: string }> {
  const lead = await tokensOf('Answer:');
  const words = ['Yes', 'No'] as [string, string];
  const lengths = await Promise.all(words.map((word) => tokensOf(`Answer: ${word}`)));
  const codes: [string, string] = lengths.every((length) => length === lead + 1) ? words : ['A', 'B'];
  const [yes, no] = codes;
  return {
    codes,
    question: `Is this true of the input above? Reply with ${yes} if it is, or with ${no} if it is not.`,
  };
}

/** The sum of the log probabilities of each answer's tokens after the prompt, normalized over the answers. */
async function scored(prompt: string, answers: readonly string[]): Promise<number[]> {
  const { body } = await ask(server, '/v1/completions', {
    model,
    prompt: answers.map((answer) => `${prompt} ${answer}`),
    max_tokens: 0,
    echo: true,
    logprobs: 0,
  });
  const from = await tokensOf(prompt);
  const { choices } = body as { choices: { logprobs: { token_logprobs: number[] } }[] };
  const weights = choices.map(({ logprobs }) =>
    Math.exp(logprobs.token_logprobs.slice(from).reduce((sum, log) => sum + log, 0)),
  );
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

const near = (found: readonly number[], wanted: readonly number[]): boolean =>
  found.length === wanted.length && found.every((value, at) => Math.abs(value - wanted[at]!) < 1e-4);
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

t.test('probabilities equal those that the scores of the answers give', async (t) => {
  const answer = await decide([predicate, choice, score]);
  const ofPredicate = await predicateCodes();
  const texts = [
    `The review is negative.\n\n${ofPredicate.question}`,
    `What is the review about?\n\n${choiceText(['A. "food": meals and drinks', 'B. "cars"', 'C. true', 'D. "true"'])}`,
    'How happy is the guest?\n\nRate the input above with one of these levels, from the lowest to the highest:\n' +
      'A. unhappy\nB. neutral: neither\nC. happy\n\nReply with the letter of one level.',
  ];
  const prompts = await Promise.all(texts.map((text) => promptOf([{ role: 'user', content: `${input}\n\n${text}` }])));
  const codes = [ofPredicate.codes, [...'ABCD'], [...'ABC']];
  for (const [at, prompt] of prompts.entries()) {
    const wanted = await scored(prompt, codes[at]!);
    const found = probabilities(answer.answers[at]);
    t.ok(near(found, wanted), `question ${at}: ${found} and ${wanted}`);
    t.ok(Math.abs(sum(found) - 1) < 1e-12);
  }
  t.match(publishedAnswers.Decisions.safeParse(answer), { success: true });
  t.match(
    answer.answers.map(({ type, name }) => ({ type, name })),
    [
      { type: 'predicate', name: null },
      { type: 'choice', name: 'topic' },
      { type: 'score', name: null },
    ],
  );
  const [, chosen, rated] = answer.answers as [unknown, Decision.AnswerResourceChoice, Decision.AnswerResourceScore];
  const best = chosen.probabilities.toSorted((a, b) => b.probability - a.probability)[0]!;
  t.same([chosen.choice, chosen.confidence], [best.value, best.probability]);
  t.same(
    chosen.probabilities.map(({ value }) => value),
    ['food', 'cars', true, 'true'],
  );
  t.same(
    rated.probabilities.map(({ label, value }) => [label, value]),
    [
      ['unhappy', 0],
      ['neutral', 1],
      ['happy', 2],
    ],
  );
  t.ok(Math.abs(rated.score - sum(rated.probabilities.map(({ value, probability }) => value * probability))) < 1e-9);
  t.equal(rated.confidence, Math.max(...probabilities(rated)));
  t.equal(answer.model, model);

  const counts = await Promise.all(prompts.map(tokensOf));
  t.match(answer.usage, {
    input_tokens: sum(counts),
    output_tokens: 3,
    total_tokens: sum(counts) + 3,
    input_tokens_details: { cache_write_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  });
});

t.test('an answer does not depend on the other questions, on their order or on the prefix cache', async (t) => {
  const questions = [predicate, choice, score];
  const together = (await decide(questions)).answers;
  const reversed = (await decide(questions.toReversed())).answers.toReversed();
  const alone = await Promise.all(questions.map(async (question) => (await decide([question])).answers[0]));
  t.same(reversed, together);
  t.same(alone, together);
});

t.test('a repeated request reads the prompts from the prefix cache', async (t) => {
  const first = (await decide([predicate, score], { input: `${input} It was raining.` })).usage;
  const again = (await decide([predicate, score], { input: `${input} It was raining.` })).usage;
  t.equal(again.input_tokens, first.input_tokens);
  t.ok(again.input_tokens_details.cached_tokens > first.input_tokens_details.cached_tokens);
  t.ok(first.input_tokens_details.cached_tokens >= 16, 'the second question shares the start of the first one');
});

t.test('more answers than one engine request can compare', async (t) => {
  const many = (count: number): Question => ({
    type: 'choice',
    instructions: 'Pick.',
    choices: Array.from({ length: count }, (_, at) => ({ value: `v${at}` })),
  });
  const { answers, usage } = await decide([many(40)]);
  const codes = await codesOf(40);
  const options = codes.map((code, at) => `${code}. "v${at}"`).join('\n');
  const text = `Pick.\n\nChoose one of these options:\n${options}\n\nReply with the letters of one option.`;
  const wanted = await scored(await promptOf([{ role: 'user', content: `${input}\n\n${text}` }]), codes);
  const found = probabilities(answers[0]);
  t.ok(near(found, wanted), `${codes.join(' ')}: ${found} and ${wanted}`);
  t.ok(Math.abs(sum(found) - 1) < 1e-12);
  t.equal(usage.output_tokens, 3, 'one engine request compares 20 tokens, and the others 19');
});

t.test('messages, tool calls and JSON of the input are shown to the model', async (t) => {
  const items: DecisionCreateParams['input'] = [
    { role: 'developer', content: 'You judge reviews.' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'The review:' },
        { type: 'input_json', data: { stars: 1 } },
      ],
    },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Noted.' }], phase: 'final_answer' },
    { type: 'function_call', call_id: 'c1', name: 'lookup', arguments: '{"id":7}' },
    { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'a diner' }] },
  ];
  const { answers, usage } = await decide([predicate], { input: items });
  const { codes, question } = await predicateCodes();
  const prompt = await promptOf([
    { role: 'system', content: 'You judge reviews.' },
    { role: 'user', content: 'The review:\n{"stars":1}' },
    {
      role: 'assistant',
      content: 'Noted.',
      tool_calls: [{ type: 'function', id: 'c1', function: { name: 'lookup', arguments: '{"id":7}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'a diner' },
    { role: 'user', content: `The review is negative.\n\n${question}` },
  ]);
  t.ok(near(probabilities(answers[0]), await scored(prompt, codes)));
  t.equal(usage.input_tokens, await tokensOf(prompt));
});

t.test('images in the input and in questions change the answer', async (t) => {
  const shapes = readFileSync(join(vision, 'shapes.png'));
  const flipped = await sharp(shapes).flop().png().toBuffer();
  const image = (bytes: Buffer) =>
    ({ type: 'input_image', image_url: `data:image/png;base64,${bytes.toString('base64')}` }) as const;
  const look = (one: Buffer, other: Buffer): Promise<Decision> =>
    client.decisions.create({
      model: 'see',
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'Look: ' }, image(one)] }],
      questions: [
        { ...predicate, instructions: 'It is red.' },
        { ...predicate, instructions: [{ type: 'input_text', text: 'It is equal to ' }, image(other)] },
      ],
    });
  const first = await look(shapes, shapes);
  t.same((await look(shapes, shapes)).answers, first.answers);
  const [own, asked] = [(await look(flipped, shapes)).answers, (await look(shapes, flipped)).answers];
  t.notSame(own[0], first.answers[0]);
  t.same(asked[0], first.answers[0], "another question's image has no effect");
  t.notSame(asked[1], first.answers[1]);
  t.ok(first.usage.input_tokens > 3 * 184, `${first.usage.input_tokens} tokens of three images and the text`);
});

t.test('errors name the parameter', async (t) => {
  const questions = (...list: object[]): object => ({ questions: list });
  const image = { type: 'input_image', image_url: 'data:image/png;base64,AAAA' };
  const choices = (...values: unknown[]): object => ({ ...choice, choices: values.map((value) => ({ value })) });
  const levels = (count: number): object => ({ ...score, levels: Array(count).fill({ label: 'x' }) });
  const refusals: [body: object, expected: string][] = [
    [{ model: undefined }, '400 missing_required_parameter model'],
    [{ model: 'none' }, '404 model_not_found model'],
    [{ model: 'embed' }, '422 model_not_generative model'],
    [{ model: 'far' }, '422 unsupported_feature model'],
    [{ input: undefined }, '400 missing_required_parameter input'],
    [{ input: 7 }, '400 invalid_type input'],
    [{ input: [] }, '400 missing_required_parameter input'],
    [{ input: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, '400 unknown_variant input[0].content[0].type'],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, '400 unknown_variant input[0].type'],
    [{ input: [{ role: 'system', content: [image] }] }, '400 unknown_variant input[0].content[0].type'],
    [
      { input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] },
      '422 tool_call_not_found input[0].call_id',
    ],
    [
      { input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }] },
      '422 missing_tool_output input[0]',
    ],
    [{ input: [{ role: 'user', content: [image] }] }, '422 model_not_vision input[0].content[0]'],
    [{ input: 'x '.repeat(200_000) }, '400 context_length_exceeded input'],
    [{ questions: undefined }, '400 missing_required_parameter questions'],
    [{ questions: [] }, '400 missing_required_parameter questions'],
    [{ questions: Array(401).fill(predicate) }, '422 array_too_long questions'],
    [{ questions: Array(20).fill(levels(255)) }, '422 array_too_long questions'],
    [questions({ type: 'essay', instructions: 'x' }), '400 unknown_variant questions[0].type'],
    [questions(predicate, { type: 'predicate' }), '400 missing_required_parameter questions[1].instructions'],
    [questions({ ...predicate, instructions: [image] }), '422 model_not_vision questions[0].instructions[0]'],
    [questions({ ...choice, choices: undefined }), '400 missing_required_parameter questions[0].choices'],
    [questions(choices('a')), '422 invalid_value questions[0].choices'],
    [questions(choices('a', 7)), '400 invalid_type questions[0].choices[1].value'],
    [questions(choices('a', true, 'a')), '422 invalid_value questions[0].choices[2].value'],
    [questions(choices(...Array(256).fill('a'))), '422 array_too_long questions[0].choices'],
    [{ ...questions(levels(255)), model: 'see' }, '422 unsupported_value questions[0].levels'],
    [questions(levels(1)), '422 invalid_value questions[0].levels'],
    [questions(levels(256)), '422 array_too_long questions[0].levels'],
    [questions({ ...predicate, name: 'x'.repeat(513) }), '422 string_too_long questions[0].name'],
  ];
  for (const [body, expected] of refusals) {
    const { status, body: answer } = await ask(server, '/v1/decisions', {
      model,
      input,
      questions: [predicate],
      ...body,
    });
    const { code, param } = (answer as { error?: { code: string; param: string } }).error ?? {};
    t.equal(`${status} ${code} ${param}`, expected, JSON.stringify(body).slice(0, 80));
  }
  const refused = await decide([]).catch((error: unknown) => error);
  t.ok(refused instanceof APIError && refused.param === 'questions', 'the official client reads the error');
});

t.test('parameters without effect are listed', async (t) => {
  const { status, headers } = await ask(server, '/v1/decisions', {
    model,
    input: [{ role: 'user', content: input, name: 'x' }],
    questions: [{ ...predicate, weight: 2 }],
    stream: true,
    prompt_cache_key: 'k',
    prompt_cache_options: { mode: 'explicit', ttl: '30m' },
    safety_identifier: 'someone',
  });
  t.equal(status, 200);
  t.equal(headers.get('x-ignored-parameters'), 'input.name, questions.weight, stream, prompt_cache_options.mode');
});

t.test('a client that disconnects cancels all questions', async (t) => {
  const cancelled = async (): Promise<number> =>
    sum(
      [...(await server.metrics())].map(([name, value]) =>
        name.startsWith('monolith_engine_cancelled_total{') ? value : 0,
      ),
    );
  const value = async (name: string): Promise<number> =>
    (await server.metrics()).get(`${name}{model="${model}"}`) ?? Number.NaN;
  const before = await cancelled();
  const controller = new AbortController();
  const questions = Array.from({ length: 300 }, (_, at) => ({
    ...predicate,
    instructions: `${'word '.repeat(100)}${at}`,
  }));
  const ended = client.decisions
    .create({ model, input, questions }, { signal: controller.signal })
    .catch(() => 'aborted');
  t.ok(await eventually(async () => (await value('monolith_sequences_running')) > 0), 'questions are running');
  controller.abort();
  t.equal(await ended, 'aborted');
  const isIdle = async (): Promise<boolean> =>
    (await value('monolith_sequences_running')) === 0 && (await value('monolith_requests_waiting')) === 0;
  t.ok(await eventually(isIdle), 'nothing is running or waiting');
  t.ok(await eventually(async () => (await cancelled()) > before), 'the engine has cancelled requests');
  t.ok(await eventually(() => /"path":"\/v1\/decisions"[^\n]*"outcome":"cancelled"/.test(server.log())));
  t.equal((await decide([predicate])).answers.length, 1);
});
