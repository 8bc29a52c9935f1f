// Tests every argument of every native call: an invalid argument is refused with a TypeError that names it.
import t, { type Test } from 'tap';
import type { NativeEngine } from '../../src/engine/addon-types.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { loadOptions, loadStarter, plainText, promptOf, starterPath, submitOptions } from './starter.js';

const addon = loadAddon();

/** Allows arguments that JavaScript can pass but that TypeScript would reject. */
type Loose = Record<string, (...args: unknown[]) => unknown>;
const loose = (value: object): Loose => value as Loose;

function detached(): Int32Array {
  const array = new Int32Array(4);
  structuredClone(array, { transfer: [array.buffer] });
  return array;
}

function refusals(t: Test, call: (value: unknown) => unknown, cases: readonly (readonly [unknown, string])[]): void {
  for (const [value, message] of cases) {
    t.throws(() => call(value), { name: 'TypeError', message }, message);
  }
}

t.test('invalid load options are refused with a TypeError that names them', async (t) => {
  const inspect = (more: object) => () => loose(addon)['inspect']?.(starterPath, { ...loadOptions, ...more });
  const cases: [object, string][] = [
    [{ threads: 1.5 }, 'options.threads must be an integer from 0 to 1024, not 1.5'],
    [{ threads: NaN }, 'options.threads must be an integer from 0 to 1024, not NaN'],
    [{ threads: '2' }, 'options.threads must be an integer from 0 to 1024, not a string'],
    [{ threads: -1 }, 'options.threads must be an integer from 0 to 1024, not -1'],
    [
      { isa: 'sse' },
      "options.isa must be one of 'auto', 'plain', 'avx2', 'avx_vnni', 'avx512', 'amx', 'neon', 'neon_i8mm', not a string",
    ],
    [
      { isa: null },
      "options.isa must be one of 'auto', 'plain', 'avx2', 'avx_vnni', 'avx512', 'amx', 'neon', 'neon_i8mm', not null",
    ],
    [{ arithmetic: 1 }, "options.arithmetic must be one of 'production', 'fast', 'exact', not 1"],
    [{ batchInvariant: 1 }, 'options.batchInvariant must be a boolean, not 1'],
    [{ cublaslt: '' }, 'options.cublaslt is an empty path'],
    [{ kvType: 'f8' }, "options.kvType must be one of 'f16', 'f32', 'q8_0', 'fp8', 'q4_0', 'q5_0', not a string"],
    [{ draftPath: '' }, 'options.draftPath is an empty path'],
    [
      { draftQuantize: 'q9' },
      "options.draftQuantize must be one of 'q8_0', 'q6_k', 'q4_k', 'q4_0', 'fp8', not a string",
    ],
    [{ maxContext: 2 ** 31 }, 'options.maxContext must be an integer from 0 to 2147483647, not 2147483648'],
    [{ kvBytes: Infinity }, 'options.kvBytes must be an integer from 0 to 9007199254740991, not Infinity'],
    [{ maxBatchTokens: -1 }, 'options.maxBatchTokens must be an integer from 0 to 65536, not -1'],
    [{ maxSequences: 5000 }, 'options.maxSequences must be an integer from 1 to 4096, not 5000'],
    [{ queueMaxTokens: 0 }, 'options.queueMaxTokens must be an integer from 1 to 1000000000, not 0'],
    [{ queueMax: undefined }, 'options.queueMax must be an integer from 0 to 1000000, not undefined'],
    [{ prefixCache: 1 }, 'options.prefixCache must be a boolean, not 1'],
    [{ speculation: 'on' }, "options.speculation must be one of 'off', 'auto', 'always', not a string"],
    [{ mtp: 'on' }, "options.mtp must be one of 'off', 'auto', 'always', not a string"],
  ];
  for (const [more, message] of cases) t.throws(inspect(more), { name: 'TypeError', message }, message);
  refusals(t, (options) => loose(addon)['inspect']?.(starterPath, options), [
    [undefined, 'options must be an object, not undefined'],
    [null, 'options must be an object, not null'],
    [[], 'options must be an object, not an array'],
  ]);
  t.throws(
    () =>
      loose(addon)['inspect']?.(starterPath, {
        ...loadOptions,
        get threads() {
          throw new RangeError('mine');
        },
      }),
    { name: 'RangeError', message: 'mine' },
    'an error thrown by a getter is passed on',
  );
});

t.test('invalid paths, names, functions and token arrays are refused with a TypeError', async (t) => {
  refusals(t, (path) => loose(addon)['loadTokenizer']?.(path), [
    [undefined, 'path must be a string, not undefined'],
    ['', 'path is an empty path'],
    ['a\0b', 'path is a path with a NUL character'],
    ['x'.repeat(5000), 'path has 5000 bytes of UTF-8, more than 4096'],
    [Symbol('s'), 'path must be a string, not a symbol'],
  ]);
  refusals(t, (name) => loose(addon)['load']?.(name, starterPath, loadOptions, () => {}), [
    [7, 'name must be a string, not 7'],
    ['é'.repeat(2049), 'name has 4098 bytes of UTF-8, more than 4096'],
  ]);
  refusals(t, (onProgress) => loose(addon)['load']?.('n', starterPath, loadOptions, onProgress), [
    [undefined, 'onProgress must be a function, not undefined'],
    [{}, 'onProgress must be a function, not an object'],
  ]);
  refusals(t, (ids) => loose(addon)['debugLogits']?.(starterPath, loadOptions, ids, new Int32Array(0), 0), [
    [[1], 'ids must be an Int32Array, not an array'],
    [detached(), 'ids is an Int32Array whose buffer is detached'],
  ]);
  refusals(t, (n) => loose(addon)['debugLogits']?.(starterPath, loadOptions, Int32Array.of(1), new Int32Array(0), n), [
    [-1, 'continueTokens must be an integer from 0 to 16777216, not -1'],
  ]);
  await t.rejects(addon.inspect('/nowhere/at/all.gguf', loadOptions), {
    name: 'Error',
    code: 'io',
    message: /all\.gguf/,
  });
});

t.test('invalid arguments of engine methods are refused with a TypeError', async (t) => {
  const engine: NativeEngine = await loadStarter('arguments');
  t.teardown(() => engine.close());
  const call = loose(engine);
  const { vocabulary } = engine.info;

  refusals(t, (onEvents) => call['open']?.(onEvents), [[null, 'onEvents must be a function, not null']]);
  refusals(t, (text) => call['tokenize']?.(text, plainText), [[5n, 'text must be a string, not a bigint']]);
  refusals(t, (options) => call['tokenizeAsync']?.('x', options), [
    [undefined, 'options must be an object, not undefined'],
    [{ ...plainText, guard: 0x110000 }, 'options.guard must be an integer from 0 to 1114111, not 1114112'],
    [{ ...plainText, addSpecial: 0 }, 'options.addSpecial must be a boolean, not 0'],
  ]);
  refusals(t, (token) => call['tokenBytes']?.(token), [
    [vocabulary, `token must be an integer from 0 to ${vocabulary - 1}, not ${vocabulary}`],
    [-1, `token must be an integer from 0 to ${vocabulary - 1}, not -1`],
    [1e300, `token must be an integer from 0 to ${vocabulary - 1}, not 1e+300`],
  ]);
  refusals(t, (spelling) => call['findToken']?.(spelling), [[[], 'spelling must be a string, not an array']]);
  refusals(t, (tokens) => call['detokenize']?.(tokens), [
    [Float32Array.of(1), 'tokens must be an Int32Array, not another typed array'],
    [Int32Array.of(1, vocabulary), `tokens[1] must be a token from 0 to ${vocabulary - 1}, not ${vocabulary}`],
    [detached(), 'tokens is an Int32Array whose buffer is detached'],
  ]);
  refusals(t, (limits) => call['configure']?.(limits), [
    [{ maxBatchTokens: 1, maxSequences: -1 }, 'tunables.maxSequences must be an integer from 1 to 4096, not -1'],
  ]);
  t.throws(() => Reflect.construct(engine.constructor, []), { name: 'TypeError', message: /cannot be constructed/ });
  t.throws(() => Reflect.apply(engine.stats, {}, []), { name: 'TypeError' }, 'a foreign receiver is refused');
});

t.test('invalid submit options are refused with a TypeError that names them', async (t) => {
  const engine = await loadStarter('submit-arguments');
  t.teardown(() => engine.close());
  const channel = engine.open(() => {});
  const call = loose(channel);
  const prompt = promptOf(engine);
  const { vocabulary } = engine.info;
  const last = vocabulary - 1;
  const reasoning = { open: '<think>', close: '</think>', startsInside: false, budget: -1, closeText: '' };
  const calls = {
    open: '<tool_call>',
    close: '</tool_call>',
    atStart: false,
    prefixes: [],
    required: false,
    forbidden: false,
  };

  const cases: [object, string][] = [
    [{ prompt: [1, 2] }, 'options.prompt must be an Int32Array, not an array'],
    [{ prompt: new Int32Array(0) }, 'options.prompt is empty: a prompt needs at least one token'],
    [{ prompt: detached() }, 'options.prompt is an Int32Array whose buffer is detached'],
    [{ prompt: Int32Array.of(0, -5) }, `options.prompt[1] must be a token from 0 to ${last}, not -5`],
    [{ organization: -1 }, 'options.organization must be an integer from 0 to 4294967295, not -1'],
    [{ n: 0 }, 'options.n must be an integer from 1 to 128, not 0'],
    [{ n: 129 }, 'options.n must be an integer from 1 to 128, not 129'],
    [{ maxTokens: 0 }, 'options.maxTokens must be an integer from 1 to 2147483647, not 0'],
    [{ output: 'image' }, "options.output must be one of 'tokens', 'logprobs', 'vector', 'nothing', not a string"],
    [{ output: 'nothing' }, 'options.maxTokens must be an integer from 0 to 0, not 16'],
    [{ temperature: NaN }, 'options.temperature must be a number from 0 to 100, not NaN'],
    [{ temperature: '1' }, 'options.temperature must be a number from 0 to 100, not a string'],
    [{ topK: 0.5 }, 'options.topK must be an integer from 0 to 2147483647, not 0.5'],
    [{ topP: 1.01 }, 'options.topP must be a number from 0 to 1, not 1.01'],
    [{ minP: -0.1 }, 'options.minP must be a number from 0 to 1, not -0.1'],
    [{ repetitionPenalty: 0 }, 'options.repetitionPenalty must be a number from 0.01 to 100, not 0'],
    [{ frequencyPenalty: Infinity }, 'options.frequencyPenalty must be a number from -100 to 100, not Infinity'],
    [{ seed: 1 }, 'options.seed must be a bigint of at most 64 bits, not 1'],
    [{ seed: 1n << 64n }, 'options.seed must be a bigint of at most 64 bits, not a bigint'],
    [{ logitBias: {} }, 'options.logitBias must be an array, not an object'],
    [{ logitBias: [null] }, 'options.logitBias[0] must be an object, not null'],
    [
      {
        logitBias: [
          { token: 1, bias: 1 },
          { token: vocabulary, bias: 1 },
        ],
      },
      `options.logitBias[1].token must be an integer from 0 to ${last}, not ${vocabulary}`,
    ],
    [
      { logitBias: [{ token: 1, bias: -Infinity }] },
      'options.logitBias[0].bias must be a number from -1000 to 1000, not -Infinity',
    ],
    [{ logitBias: new Array(1025).fill({ token: 1, bias: 1 }) }, 'options.logitBias has 1025 elements, more than 1024'],
    [{ topLogprobs: 21 }, 'options.topLogprobs must be an integer from -1 to 20, not 21'],
    [{ stop: new Array(17).fill('x') }, 'options.stop has 17 elements, more than 16'],
    [{ stop: ['ok', ''] }, 'options.stop[1] is empty'],
    [{ stop: ['x'.repeat(1025)] }, 'options.stop[0] has 1025 bytes of UTF-8, more than 1024'],
    [{ stop: [{}] }, 'options.stop[0] must be a string, not an object'],
    [{ stopTokens: [-1] }, `options.stopTokens[0] must be an integer from 0 to ${last}, not -1`],
    [{ ignoreEos: 'no' }, 'options.ignoreEos must be a boolean, not a string'],
    [{ queueWaitMs: 2 ** 32 }, 'options.queueWaitMs must be an integer from 0 to 4294967295, not 4294967296'],
    [{ generationMs: 0 }, 'options.generationMs must be an integer from 1 to 4294967295, not 0'],
    [{ reasoning: 'yes' }, 'options.reasoning must be an object, not a string'],
    [{ reasoning: { ...reasoning, continued: 1 } }, 'options.reasoning.continued must be a boolean, not 1'],
    [
      { reasoning: { ...reasoning, budget: -2 } },
      'options.reasoning.budget must be an integer from -1 to 2147483647, not -2',
    ],
    [
      { reasoning: { ...reasoning, open: 'x'.repeat(257) } },
      'options.reasoning.open has 257 bytes of UTF-8, more than 256',
    ],
    [{ formatHead: 7 }, 'options.formatHead must be a string, not 7'],
    [{ calls: 1 }, 'options.calls must be an object, not 1'],
    [{ calls: { ...calls, open: '' } }, 'options.calls.open is empty'],
    [{ calls: { ...calls, open: 'x'.repeat(257) } }, 'options.calls.open has 257 bytes of UTF-8, more than 256'],
    [{ calls: { ...calls, close: null } }, 'options.calls.close must be a string, not null'],
    [{ calls: { ...calls, atStart: undefined } }, 'options.calls.atStart must be a boolean, not undefined'],
    [{ calls: { ...calls, prefixes: 'x' } }, 'options.calls.prefixes must be an array, not a string'],
    [
      { calls: { ...calls, prefixes: new Array(4097).fill('x') } },
      'options.calls.prefixes has 4097 elements, more than 4096',
    ],
    [{ calls: { ...calls, prefixes: ['x', ''] } }, 'options.calls.prefixes[1] is empty'],
    [
      { calls: { ...calls, prefixes: ['x', 'é'.repeat(513)] } },
      'options.calls.prefixes[1] has 1026 bytes of UTF-8, more than 1024',
    ],
    [{ calls: { ...calls, prefixes: [7] } }, 'options.calls.prefixes[0] must be a string, not 7'],
    [{ calls: { ...calls, required: 'yes' } }, 'options.calls.required must be a boolean, not a string'],
    [{ calls: { ...calls, forbidden: 0 } }, 'options.calls.forbidden must be a boolean, not 0'],
    [
      { calls: { ...calls, required: true, forbidden: true } },
      'options.calls.forbidden cannot be combined with required',
    ],
  ];
  for (const [more, message] of cases) {
    t.throws(() => call['submit']?.({ ...submitOptions(prompt), ...more }), { name: 'TypeError', message }, message);
  }
  refusals(t, (id) => call['cancel']?.(id), [
    [0, 'request must be an integer from 1 to 4294967295, not 0'],
    [undefined, 'request must be an integer from 1 to 4294967295, not undefined'],
  ]);
  refusals(t, (id) => call['finish']?.(id, 0), [[-1, 'request must be an integer from 1 to 4294967295, not -1']]);
  refusals(t, (choice) => call['finish']?.(1, choice), [
    [undefined, 'choice must be an integer from 0 to 127, not undefined'],
    [128, 'choice must be an integer from 0 to 127, not 128'],
  ]);
  channel.cancel(4_000_000_000); // unknown ids are ignored
  channel.finish(4_000_000_000, 0);
  for (const seed of [-1n, -(1n << 63n), (1n << 64n) - 1n])
    t.type(channel.submit(submitOptions(prompt, { seed, maxTokens: 1 })), 'number');
  const largest = { ...calls, prefixes: Array.from({ length: 128 }, (_, i) => `${i}`.padEnd(1024, ' x')) };
  for (const more of [calls, null, undefined, { ...calls, close: '' }, largest]) {
    t.type(
      channel.submit({ ...submitOptions(prompt, { maxTokens: 1 }), ...(more === undefined ? {} : { calls: more }) }),
      'number',
    );
  }
  t.throws(() => channel.submit(submitOptions(new Int32Array(600).fill(1))), { name: 'Error', code: 'too_long' });
  t.throws(() => channel.submit(submitOptions(prompt, { output: 'vector', maxTokens: 0 })), {
    name: 'Error',
    code: 'unsupported',
    message: /^output: /,
  });
  t.throws(() => channel.submit(submitOptions(prompt, { output: 'logprobs', maxTokens: 0 })), {
    name: 'Error',
    code: 'invalid_argument',
    message: /^prompt_logprobs /,
  });
  t.type(channel.submit(submitOptions(prompt, { output: 'logprobs', promptLogprobs: 1, maxTokens: 0 })), 'number');
  t.type(channel.submit(submitOptions(prompt, { output: 'nothing', maxTokens: 0 })), 'number');
  t.throws(
    () =>
      call['submit']?.({
        ...submitOptions(prompt),
        get n() {
          channel.close();
          return 1;
        },
      }),
    { name: 'Error', code: 'closed' },
    'a getter that closes the channel makes submit fail with code closed',
  );
  t.equal(engine.stats().failed, false);
});
