// Tests speculative decoding with a draft model: the output is unchanged, and the draft model must have the same
// vocabulary.
import t from 'tap';
import type { LoadOptions, NativeEngine } from '../../src/engine/addon-types.js';
import { readCatalog } from '../../src/engine/catalog.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { ModelPool } from '../../src/engine/model-pool.js';
import { loadOptions, must, promptOf, Recorder, starterPath, submitOptions } from './starter.js';

const [hal, , tycho] = readCatalog();
const halPath = must(hal).file,
  tychoPath = must(tycho).file;

const load = (name: string, options: Partial<LoadOptions>): Promise<NativeEngine> =>
  loadAddon().load(name, halPath, { ...loadOptions, ...options }, () => undefined);

t.test('hal with tycho as its draft model generates the same text as hal alone', async (t) => {
  const answers: string[][] = [];
  for (const options of [
    { speculation: 'off' },
    { speculation: 'always', draftPath: tychoPath },
    { speculation: 'auto', draftPath: tychoPath },
  ] as const) {
    const engine = await load(`hal ${options.speculation}`, options);
    const recorder = new Recorder(engine);
    const ids = [0, 0, 0.8].map((temperature, index) =>
      recorder.channel.submit(
        submitOptions(
          promptOf(engine, ['What is the capital of France?', 'Name three colours.', 'Who are you?'][index]),
          { temperature, maxTokens: 48 },
        ),
      ),
    );
    for (const id of ids) await recorder.ended(id);
    answers.push(ids.map((id) => recorder.text(id)));
    const { draftTokens, acceptedTokens } = engine.stats();
    if (options.speculation === 'always')
      t.ok(
        acceptedTokens > 20 && acceptedTokens < draftTokens,
        `${acceptedTokens} of ${draftTokens} draft tokens accepted`,
      );
    recorder.channel.close();
    await engine.close();
  }
  t.ok(answers[0]?.every((text) => text.length > 0));
  t.same(answers[1], answers[0]);
  t.same(answers[2], answers[0]);
});

t.test('the memory plan includes the draft model', async (t) => {
  const engines = [
    await load('hal alone', { kvBytes: 2 ** 24 }),
    await load('hal with a draft', { draftPath: tychoPath, kvBytes: 2 ** 24 }),
  ] as const;
  const [alone, both] = engines.map((engine) => engine.plan);
  t.ok(must(both).weightBytes > must(alone).weightBytes);
  t.ok(must(both).kvBytes > must(alone).kvBytes && must(both).kvBytes <= 2 * must(alone).kvBytes);
  for (const engine of engines) await engine.close();
});

t.test('a draft model with another vocabulary or a missing file is refused', async (t) => {
  await t.rejects(load('hal with starter', { draftPath: starterPath }), {
    code: 'invalid_argument',
    message:
      /hal-1\.0.*starter-q8_0\.gguf: a draft model must have the vocabulary of its target model, but this one has 1535 tokens, not \d+/,
  });
  await t.rejects(load('hal with nothing', { draftPath: '/nowhere.gguf' }), { code: 'io', message: /nowhere\.gguf/ });
});

t.test('the model pool keeps a model with a draft model separate from the same file without one', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  pool.add(must(hal));
  pool.add({ ...must(hal), id: 'fast' }, true, must(tycho));
  pool.add({ ...must(hal), id: 'wrong' }, true, { ...must(tycho), file: starterPath });
  await pool.settled();
  t.same(
    pool.engines().map(({ names, status }) => [names, status.state]),
    [
      [['hal-1.0'], 'ready'],
      [['fast'], 'ready'],
      [['wrong'], 'failed'],
    ],
  );
});
