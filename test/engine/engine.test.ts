import t from 'tap';
import { Engine } from '../../src/engine/engine.js';
import type { EngineEvent } from '../../src/engine/events.js';
import { loadStarter, plainText, submitOptions } from '../addon/starter.js';

async function openEngine(name: string): Promise<{ engine: Engine; prompt: Int32Array }> {
  const engine = new Engine(await loadStarter(name));
  const prompt = await engine.tokenize('<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n', plainText);
  return { engine, prompt };
}

function generation(engine: Engine, ...[options, onEvent]: [Parameters<Engine['generate']>[0], ((event: EngineEvent) => void)?]): Promise<EngineEvent[]> {
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

const textOf = (events: EngineEvent[]): string => events.map((event) => (event.type === 'text' ? event.text : '')).join('');

t.test('each request gets its own events', async (t) => {
  const { engine, prompt } = await openEngine('engine');
  t.teardown(() => engine.close());
  const lone = await generation(engine, submitOptions(prompt, { temperature: 1, seed: 3n }));
  const all = await Promise.all([1n, 2n, 3n, 4n].map((seed) => generation(engine, submitOptions(prompt, { temperature: 1, seed, n: 2 }))));
  for (const events of all) t.same(events.filter(({ type }) => type === 'started').length, 1);
  const third = all[2]?.filter((event) => event.type === 'text' && event.choice === 0) ?? [];
  t.equal(textOf(third), textOf(lone), 'the same alone and among others');
});

t.test('cancel from within an event, and after the end', async (t) => {
  const { engine, prompt } = await openEngine('engine-cancel');
  t.teardown(() => engine.close());
  let count = 0;
  const cancelled = engine.generate(submitOptions(prompt, { maxTokens: 400 }), (event) => {
    count++;
    if (event.type === 'text') cancelled.cancel();
  });
  const events = await generation(engine, submitOptions(prompt, { maxTokens: 60 }));
  t.equal(events.at(-1)?.type, 'finished');
  t.equal(count, 2, 'started, one text');
  cancelled.cancel();
});

t.test('a listener that throws is an uncaught exception and no loss to others', async (t) => {
  const { engine, prompt } = await openEngine('engine-throw');
  t.teardown(() => engine.close());
  const uncaught: unknown[] = [];
  const restore = t.capture(process, 'emit', (name: string, ...args: unknown[]) => name === 'uncaughtException' && uncaught.push(args[0]));
  const [, other] = await Promise.all([
    generation(engine, submitOptions(prompt, { maxTokens: 2 }), (event) => { if (event.type === 'started') throw new Error('mine'); }),
    generation(engine, submitOptions(prompt, { maxTokens: 8 })),
  ]);
  restore.restore();
  t.match(uncaught, [{ message: 'mine' }]);
  t.match(other?.at(-1), { type: 'finished', completionTokens: 8 });
});

t.test('long texts are tokenized off this thread, with the same tokens', async (t) => {
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
