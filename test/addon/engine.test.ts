import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { loadAddon } from '../../src/engine/load-addon.js';
import { loadOptions, loadStarter, plainText, promptOf, Recorder, starterPath, submitOptions } from './starter.js';

const addon = loadAddon();

t.test('loading reports progress, and loading the same name again returns the same engine', async (t) => {
  // Without a fixed size, the cache would depend on how much memory happens to be free.
  const options = { ...loadOptions, kvBytes: 2 ** 23 };
  const fractions: number[] = [];
  const first = addon.load('shared', starterPath, options, (fraction) => fractions.push(fraction));
  const whileLoading = addon.load('shared', starterPath, options, () => {});
  const [a, b] = await Promise.all([first, whileLoading]);
  const c = await addon.load('shared', starterPath, options, () => {});
  t.ok(
    fractions.length > 0 && fractions.every((f, i) => f >= 0 && f <= 1 && f >= (fractions[i - 1] ?? 0)),
    `progress ${fractions.join(' ')}`,
  );

  t.same(a.info, (await addon.inspect(starterPath, options)).model);
  t.same(a.plan, (await addon.inspect(starterPath, options)).plan);
  t.equal(a.maxContext, 512);
  t.equal(a.info.vocabulary, 1535);
  t.match(a.fileHash, /^[0-9a-f]{16}$/);

  const recorder = new Recorder(a);
  const id = recorder.channel.submit(submitOptions(promptOf(a), { maxTokens: 4 }));
  await recorder.ended(id);
  t.equal(b.stats().requests, 1, 'all handles share one engine');

  await a.close();
  await a.close();
  await b.close();
  t.equal(c.stats().finished, 1, 'the engine lives until its last handle is closed');
  await c.close();
  for (const call of [() => c.stats(), () => c.tokenize('x', plainText), () => c.open(() => {}), () => c.drain()]) {
    t.throws(call, { name: 'Error', code: 'closed', message: 'the engine is closed' });
  }
  t.throws(() => recorder.channel.submit(submitOptions(Int32Array.of(1))), {
    code: 'closed',
    message: 'the channel is closed',
  });
});

t.test('a name belongs to one file with one set of options until its engine is closed', async (t) => {
  const engine = await loadStarter('one');
  await t.rejects(loadStarter('one', { maxContext: 64 }), { code: 'invalid_argument', message: /already loaded/ });
  await engine.close();
  const again = await loadStarter('one', { maxContext: 64 });
  t.equal(again.maxContext, 64, 'the name is free again after the last close');
  await again.close();
});

t.test('loading an invalid file rejects and leaves its name free', async (t) => {
  await t.rejects(
    addon.load('bad', '/nowhere/model.gguf', loadOptions, () => {}),
    { code: 'io', message: /model\.gguf/ },
  );
  await t.rejects(
    addon.load('bad', fileURLToPath(import.meta.url), loadOptions, () => {}),
    { code: 'invalid_file' },
  );
  const engine = await loadStarter('bad');
  await engine.close();
});

t.test('an error in a model file is reported with the path of the file', async (t) => {
  const content = readFileSync(starterPath);
  const damaged = (key: string, value: string): string => {
    const bytes = Buffer.from(content);
    const at = bytes.indexOf(key) + key.length + 4 + 8; // skips the type and the length of the value
    bytes.write(value, at, 'latin1');
    const path = join(t.testdir(), 'damaged.gguf');
    writeFileSync(path, bytes);
    return path;
  };
  const message = /^\/.*damaged\.gguf: .*xx/;
  for (const key of ['general.architecture', 'tokenizer.ggml.pre']) {
    await t.rejects(
      addon.load('damaged', damaged(key, 'xx'), loadOptions, () => {}),
      { message },
      `load, ${key}`,
    );
  }
  t.throws(() => addon.loadTokenizer(damaged('tokenizer.ggml.pre', 'xx')), { message }, 'loadTokenizer');
  await t.rejects(
    addon.debugLogits(damaged('general.architecture', 'xx'), loadOptions, Int32Array.of(1), Int32Array.of(0), 0),
    { message },
    'debugLogits',
  );
});

t.test('text is tokenized and detokenized without loss, with or without special tokens', async (t) => {
  const engine = await loadStarter('text');
  t.teardown(() => engine.close());
  const text = 'Zürich, 東京 and 🚀: <|im_end|>';
  const ids = engine.tokenize(text, plainText);
  t.equal(engine.detokenize(ids), text);
  t.same(await engine.tokenizeAsync(text, plainText), ids);
  const end = engine.findToken('<|im_end|>');
  t.equal(ids.at(-1), end);
  t.equal(Buffer.from(engine.tokenBytes(end)).toString(), '<|im_end|>');
  t.equal(engine.findToken('<|no such token|>'), -1);
  const asText = engine.tokenize(text, { ...plainText, parseSpecial: false });
  t.notOk(asText.includes(end), 'without parseSpecial, the spelling of a special token is plain text');
  t.equal(engine.detokenize(asText), text);
  t.same(addon.loadTokenizer(starterPath).tokenize(text, plainText), ids);
});

t.test('all events of many requests on one channel arrive, with fewer wake-ups than engine steps', async (t) => {
  const engine = await loadStarter('batch');
  t.teardown(() => engine.close());
  const recorder = new Recorder(engine);
  const prompt = promptOf(engine);
  // Control tokens have no text and so cause no text event. Exclude these tokens.
  const logitBias = engine.info.specialTokens.map((spelling) => ({ token: engine.findToken(spelling), bias: -1000 }));
  const ids = Array.from({ length: 6 }, (_, i) =>
    recorder.channel.submit(
      submitOptions(prompt, {
        maxTokens: 24,
        temperature: 1,
        logitBias,
        seed: BigInt(i),
        n: 1 + (i % 2),
        topLogprobs: i === 0 ? 2 : -1,
      }),
    ),
  );
  await recorder.until(() =>
    ids.every((id, i) => recorder.of(id).filter((event) => event.type === 'finished').length === 1 + (i % 2)),
  );
  const stats = engine.stats();
  t.ok(recorder.wakeups <= stats.steps, `${recorder.wakeups} wake-ups for ${stats.steps} steps`);
  for (const id of ids) {
    const events = recorder.of(id);
    t.match(events[0], { type: 'started', promptTokens: prompt.length });
    for (const end of events.filter((event) => event.type === 'finished')) {
      const tokens = events.reduce(
        (sum, event) => sum + (event.type === 'text' && event.choice === end.choice ? event.tokens : 0),
        0,
      );
      t.match(end, { reason: 'max_tokens', completionTokens: 24, stopIndex: -1 });
      t.equal(tokens, 24, 'every token belongs to a text event');
    }
  }
  const logprobs = recorder.of(ids[0] ?? 0).flatMap((event) => (event.type === 'text' ? (event.logprobs ?? []) : []));
  t.equal(logprobs.length, 24);
  t.ok(logprobs.every(({ logprob, top }) => logprob <= 0 && top.length === 2));
});

t.test('cancelling a request stops its events and frees its pages', async (t) => {
  const engine = await loadStarter('cancel');
  t.teardown(() => engine.close());
  const recorder = new Recorder(engine);
  const long = submitOptions(promptOf(engine), { maxTokens: 400, prefixCache: false });
  const id = recorder.channel.submit(long);
  await recorder.until(() => recorder.of(id).length >= 3);
  recorder.channel.cancel(id);
  recorder.channel.cancel(id);
  const seen = recorder.of(id).length;
  const next = recorder.channel.submit({ ...long, maxTokens: 2 });
  await recorder.ended(next);
  t.equal(recorder.of(id).length, seen);
  const stats = engine.stats();
  t.equal(stats.cancelledDecode, 1);
  t.equal(stats.pagesFree + stats.pagesCached, stats.pagesTotal);
});

t.test('another channel cannot cancel a request', async (t) => {
  const engine = await loadStarter('foreign');
  t.teardown(() => engine.close());
  const [mine, other] = [new Recorder(engine), new Recorder(engine)];
  const id = mine.channel.submit(submitOptions(promptOf(engine), { maxTokens: 40 }));
  other.channel.cancel(id);
  await mine.ended(id);
  t.match(mine.of(id).at(-1), { type: 'finished', completionTokens: 40 });
  t.equal(other.wakeups, 0);
});

t.test('closing an engine with a running request finishes promptly and emits no further event', async (t) => {
  const engine = await loadStarter('closing');
  const recorder = new Recorder(engine);
  const id = recorder.channel.submit(submitOptions(promptOf(engine), { maxTokens: 400 }));
  await recorder.until(() => recorder.of(id).length >= 2);
  const closed = engine.close();
  const { wakeups } = recorder;
  t.throws(() => engine.stats(), { code: 'closed' });
  t.throws(() => recorder.channel.cancel(id), { code: 'closed' });
  recorder.channel.close();
  await closed;
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
  t.equal(recorder.wakeups, wakeups);
});

t.test('drain ends running requests and refuses new ones', async (t) => {
  const engine = await loadStarter('draining');
  t.teardown(() => engine.close());
  const recorder = new Recorder(engine);
  const options = submitOptions(promptOf(engine), { maxTokens: 400 });
  const id = recorder.channel.submit(options);
  await recorder.until(() => recorder.of(id).length >= 2);
  engine.drain();
  await recorder.ended(id);
  t.match(recorder.of(id).at(-1), { type: 'finished', reason: 'time_limit' });
  t.throws(() => recorder.channel.submit(options), { code: 'closed' });
});

t.test('a full queue refuses requests with code queue_full', async (t) => {
  const engine = await loadStarter('queue', { maxSequences: 1, queueMax: 2 });
  t.teardown(() => engine.close());
  const { channel } = new Recorder(engine);
  const options = submitOptions(promptOf(engine), { maxTokens: 400 });
  t.throws(
    () => {
      for (let i = 0; i < 8; i++) channel.submit(options);
    },
    { code: 'queue_full' },
  );
});

t.test('debug logits agree with greedy generation', async (t) => {
  const engine = await loadStarter('logits');
  t.teardown(() => engine.close());
  const prompt = promptOf(engine);
  const recorder = new Recorder(engine);
  const id = recorder.channel.submit(submitOptions(prompt, { maxTokens: 6 }));
  await recorder.ended(id);
  const debug = await addon.debugLogits(starterPath, loadOptions, prompt, Int32Array.of(0, prompt.length - 1), 6);
  const control = engine.info.specialTokens.map((spelling) => engine.findToken(spelling));
  const greedy = debug.continuation?.tokens ?? [];
  t.equal(greedy.length, 6);
  t.equal(engine.detokenize(Int32Array.from(greedy.filter((token) => !control.includes(token)))), recorder.text(id));
  t.same(debug.tokens, [...prompt]);
  t.same(
    debug.positions.map(({ position, logits }) => [position, logits.length]),
    [
      [0, 1535],
      [prompt.length - 1, 1535],
    ],
  );
  await t.rejects(addon.debugLogits(starterPath, loadOptions, prompt, Int32Array.of(99), 0), {
    code: 'invalid_argument',
    message: /positions\[0\]/,
  });
});
