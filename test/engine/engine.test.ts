import { performance } from 'node:perf_hooks';
import t from 'tap';
import { Engine } from '../../src/engine/engine.js';
import type { EngineEvent } from '../../src/engine/events.js';
import { loadStarter, plainText, submitOptions } from '../addon/starter.js';

async function openEngine(name: string): Promise<{ engine: Engine; prompt: Int32Array }> {
  const engine = new Engine(await loadStarter(name));
  const prompt = await engine.tokenize(
    '<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n',
    plainText,
  );
  return { engine, prompt };
}

function generation(
  engine: Engine,
  ...[options, onEvent]: [Parameters<Engine['generate']>[0], ((event: EngineEvent) => void)?]
): Promise<EngineEvent[]> {
  return new Promise((resolve) => {
    const events: EngineEvent[] = [];
    let left = options.n;
    engine.generate(options, (event) => {
      events.push(event);
      onEvent?.(event);
      if (event.type === 'failed' || (event.type === 'finished' && --left === 0)) resolve(events);
    });
  });
}

const textOf = (events: EngineEvent[]): string =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('');

t.test('each request receives its own events', async (t) => {
  const { engine, prompt } = await openEngine('engine');
  t.teardown(() => engine.close());
  const lone = await generation(engine, submitOptions(prompt, { temperature: 1, seed: 3n }));
  const all = await Promise.all(
    [1n, 2n, 3n, 4n].map((seed) => generation(engine, submitOptions(prompt, { temperature: 1, seed, n: 2 }))),
  );
  for (const events of all) t.same(events.filter(({ type }) => type === 'started').length, 1);
  const third = all[2]?.filter((event) => event.type === 'text' && event.choice === 0) ?? [];
  t.equal(textOf(third), textOf(lone), 'a request gets the same text whether it runs alone or with others');
});

t.test('onDelivered reports the event delay after each step, including the work of listeners', async (t) => {
  const { engine, prompt } = await openEngine('engine-delay');
  t.teardown(() => engine.close());
  const delays: number[] = [];
  let seen = 0;
  let due = 0; // microtasks deferred by a listener that have not run yet
  const left: number[] = [];
  engine.onDelivered = (delayMs) => {
    delays.push(delayMs);
    left.push(due);
  };
  const began = performance.now();
  await generation(engine, submitOptions(prompt, { maxTokens: 20, ignoreEos: true }), () => {
    due++;
    queueMicrotask(() => {
      due--;
    });
    if (++seen === 2) for (const until = performance.now() + 25; performance.now() < until; ); // a slow listener
  });
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(delays.length > 0);
  t.ok(
    delays.every((delay) => delay > 0 && delay < performance.now() - began),
    'each delay is measured from the engine step to the delivery',
  );
  t.ok(Math.max(...delays) >= 25, 'the delay includes the time of a slow listener');
  t.ok(
    left.every((count) => count === 0),
    'the delay includes the microtasks of listeners',
  );
});

t.test('prompt log probabilities are delivered in slices, and the event loop runs in between', async (t) => {
  const { engine } = await openEngine('engine-scored');
  t.teardown(() => engine.close());
  const prompt = Int32Array.from({ length: 480 }, (_, index) => 300 + ((index * 7_919) % 1_000));
  let turns = 0;
  let counting = true;
  const count = (): void => {
    turns++;
    if (counting) setImmediate(count);
  };
  const slow = (event: EngineEvent): void => {
    if (event.type === 'prompt') for (const until = performance.now() + 3; performance.now() < until; );
    if (event.type === 'started') count();
  };
  const [events, others] = await Promise.all([
    generation(engine, submitOptions(prompt, { promptLogprobs: 20, maxTokens: 2, n: 2, ignoreEos: true }), slow),
    generation(engine, submitOptions(prompt.slice(0, 3), { maxTokens: 2, ignoreEos: true })),
  ]);
  counting = false;
  const told = events.filter((event) => event.type === 'prompt');
  t.equal(
    told.reduce((sum, { logprobs }) => sum + logprobs.length, 0),
    prompt.length - 1,
  );
  t.ok(told.every(({ logprobs }) => logprobs.length <= 16));
  t.ok(
    told.every(
      ({ first }, at) => first === 1 + told.slice(0, at).reduce((sum, { logprobs }) => sum + logprobs.length, 0),
    ),
    'the slices arrive in order',
  );
  t.equal(
    events.findLastIndex(({ type }) => type === 'prompt') <
      events.findIndex(({ type }) => type === 'text' || type === 'finished'),
    true,
    'all slices arrive before the output',
  );
  t.equal(events.at(-1)?.type, 'finished');
  t.equal(others.at(-1)?.type, 'finished');
  t.ok(turns > told.length / 4, `${turns} turns of the event loop, ${told.length} slices`);
  t.equal(engine.active, 0);

  // After a cancellation, queued slices are not delivered.
  let heard = 0;
  const left = engine.generate(submitOptions(prompt, { promptLogprobs: 20, maxTokens: 2 }), (event) => {
    if (event.type !== 'prompt' || ++heard > 2) return;
    if (heard === 2) left.cancel();
  });
  while (heard < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  for (let at = 0; at < 20; at++) await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(heard, 2);
  t.equal(engine.active, 0);
});

t.test('a request can be cancelled within an event and after its end', async (t) => {
  const { engine, prompt } = await openEngine('engine-cancel');
  t.teardown(() => engine.close());
  let count = 0;
  const cancelled = engine.generate(submitOptions(prompt, { maxTokens: 400 }), (event) => {
    count++;
    if (event.type === 'text') cancelled.cancel();
  });
  const events = await generation(engine, submitOptions(prompt, { maxTokens: 60 }));
  t.equal(events.at(-1)?.type, 'finished');
  t.equal(count, 2, 'only the started event and one text event arrive');
  cancelled.cancel();
});

const markers = {
  open: '<tool_call>',
  close: '</tool_call>',
  atStart: false,
  prefixes: [],
  required: false,
  forbidden: false,
};
const sectionOf = (events: EngineEvent[], section: string): string =>
  events.map((event) => (event.type === 'text' && event.section === section ? event.text : '')).join('');

t.test('a required tool call uses one of the given names and is a separate section', async (t) => {
  const { engine, prompt } = await openEngine('engine-calls');
  t.teardown(() => engine.close());
  const names = ['get_weather', 'get_time', 'send'];
  const prefixes = names.map((name) => `\n{"name": "${name}", "arguments":`);
  const seen = new Set<string>();
  const end = engine.findToken('</tool_call>');
  for (let seed = 0n; seed < 12n; seed++) {
    const events = await generation(
      engine,
      submitOptions(prompt, {
        temperature: 12,
        seed,
        maxTokens: 80,
        topLogprobs: 0,
        stop: ['"', 'name'],
        logitBias: [{ token: end, bias: 8 }],
        calls: { ...markers, prefixes, required: true },
      }),
    );
    const call = sectionOf(events, 'tool');
    const prefix = prefixes.find((text) => call.startsWith(`<tool_call>${text}`));
    t.ok(prefix, call);
    seen.add(prefix ?? '');
    t.ok(events.every((event) => event.type !== 'text' || event.section === 'content' || event.logprobs === null));
  }
  t.equal(seen.size, 3, 'each of the three names was chosen');

  const spelled = {
    open: '{"name"',
    close: '',
    atStart: true,
    prefixes: [': "get_time", "parameters":'],
    required: true,
    forbidden: false,
  };
  const plain = await generation(engine, submitOptions(prompt, { calls: spelled, maxTokens: 30 }));
  t.match(sectionOf(plain, 'tool'), /^\{"name": "get_time", "parameters":/);
  t.equal(sectionOf(plain, 'content'), '');

  const reasoning = { open: '<think>', close: '</think>', startsInside: true, budget: 5, closeText: '\n</think>\n\n' };
  const reasoned = await generation(
    engine,
    submitOptions(prompt, { reasoning, maxTokens: 60, calls: { ...markers, prefixes, required: true } }),
  );
  t.match(sectionOf(reasoned, 'tool'), /^<tool_call>\n\{"name": "/);
  t.match(
    reasoned.find((event) => event.type === 'text' && event.section !== 'reasoning'),
    { section: 'tool' },
    'no line break precedes the tool call',
  );
});

t.test('a tool call that the model makes is recognized, and forbidden calls are suppressed', async (t) => {
  const { engine, prompt } = await openEngine('engine-no-calls');
  t.teardown(() => engine.close());
  const logitBias = [{ token: engine.findToken('<tool_call>'), bias: 15 }];
  const wanting = (forbidden: boolean) =>
    submitOptions(prompt, { temperature: 1, logitBias, maxTokens: 60, calls: { ...markers, forbidden } });
  const free = await generation(engine, wanting(false));
  t.match(sectionOf(free, 'tool'), /^<tool_call>/);
  t.notMatch(sectionOf(free, 'content'), /<tool_call>/);
  t.notMatch(textOf(await generation(engine, wanting(true))), /<\/?tool_call>/);
});

t.test('finish ends only the given choice', async (t) => {
  const { engine, prompt } = await openEngine('engine-finish');
  t.teardown(() => engine.close());
  const ended = await new Promise<EngineEvent[]>((resolve) => {
    const ends: EngineEvent[] = [];
    const running = engine.generate(submitOptions(prompt, { n: 2, maxTokens: 300, temperature: 1 }), (event) => {
      if (event.type === 'text' && event.choice === 1) running.finish(1);
      if (event.type === 'finished' && ends.push(event) === 2) resolve(ends);
    });
  });
  t.match(ended, [
    { choice: 1, reason: 'end_of_turn' },
    { choice: 0, reason: 'max_tokens', completionTokens: 300 },
  ]);
});

t.test('an exception in a listener is uncaught and does not affect other requests', async (t) => {
  const { engine, prompt } = await openEngine('engine-throw');
  t.teardown(() => engine.close());
  const uncaught: unknown[] = [];
  const restore = t.capture(
    process,
    'emit',
    (name: string, ...args: unknown[]) => name === 'uncaughtException' && uncaught.push(args[0]),
  );
  const [, other] = await Promise.all([
    generation(engine, submitOptions(prompt, { maxTokens: 2 }), (event) => {
      if (event.type === 'started') throw new Error('mine');
    }),
    generation(engine, submitOptions(prompt, { maxTokens: 8 })),
  ]);
  restore.restore();
  t.match(uncaught, [{ message: 'mine' }]);
  t.match(other?.at(-1), { type: 'finished', completionTokens: 8 });
});

t.test('a long text is tokenized on another thread with the same tokens', async (t) => {
  const { engine } = await openEngine('engine-tokenize');
  t.teardown(() => engine.close());
  const sentence = 'The quick brown fox jumps over the lazy dog. ';
  const long = await engine.tokenize(sentence.repeat(2_000), plainText);
  t.equal(engine.detokenize(long), sentence.repeat(2_000));
});

t.test('close cancels silently and can be called twice', async (t) => {
  const { engine, prompt } = await openEngine('engine-close');
  let events = 0;
  engine.generate(submitOptions(prompt, { maxTokens: 400 }), () => events++);
  const closed = engine.close();
  t.equal(engine.close(), closed);
  await closed;
  t.equal(events, 0);
  t.throws(() => engine.generate(submitOptions(prompt), () => {}), { code: 'closed' });
});

t.test('background requests are not counted as waiting in the foreground', async (t) => {
  const engine = new Engine(await loadStarter('engine-foreground', { maxSequences: 1 }));
  t.teardown(() => engine.close());
  const prompt = await engine.tokenize('Name three colours.', plainText);
  const options = submitOptions(prompt, { maxTokens: 200, ignoreEos: true });
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const running = [generation(engine, options, () => begin())];
  await begun; // it takes the only sequence slot
  for (let i = 0; i < 3; i++) running.push(generation(engine, { ...options, background: true }));
  for (let i = 0; i < 2; i++) running.push(generation(engine, options));
  for (const end = performance.now() + 5_000; engine.stats().waiting < 5 && performance.now() < end; )
    await new Promise((resolve) => setTimeout(resolve, 1));
  t.equal(engine.stats().waiting, 5);
  t.equal(engine.waitingInForeground(), 2);
  await Promise.all(running);
  t.equal(engine.waitingInForeground(), 0);
});
