import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ggufHead, type Metadata } from '../../bench/lib/gguf-writer.js';
import {
  builtInCatalog,
  checkedDrafts,
  modelBytes,
  modelOfFile,
  readCatalog,
  withOverrides,
} from '../../src/engine/catalog.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { loadOptions, starterPath } from '../addon/starter.js';

t.test('the built-in catalog declares no more than its model files support', async (t) => {
  const models = readCatalog();
  t.same(
    models.map(({ id, default_effort }) => [id, default_effort]),
    [
      ['hal-1.0', 'none'],
      ['clarke-1.0', 'none'],
      ['tycho-1.0', 'none'],
      ['discovery-embed-1.0', 'none'],
    ],
  );
  for (const model of models) {
    t.ok(existsSync(model.file));
    const { model: info } = await loadAddon().inspect(model.file, loadOptions);
    t.ok((model.context_window ?? 0) <= (info?.contextLength ?? 0));
    t.ok((model.max_output_tokens ?? 0) < (model.context_window ?? Infinity));
  }
});

t.test('an invalid catalog gives an error with the position of the fault', async (t) => {
  const model = { ...readCatalog()[0], file: starterPath };
  const cases: [unknown, RegExp][] = [
    [{ models: [] }, /models: /],
    [{ models: [{ ...model, created: 'now' }] }, /models\.0\.created: /],
    [{ models: [{ ...model, colour: 1 }] }, /models\.0: .*colour/],
    [{ models: [model, model] }, /models\.1\.id: "hal-1\.0" is listed twice/],
    [{ models: [{ ...model, id: '../x' }] }, /models\.0\.id: must be/],
    [{ models: [{ ...model, file: 'absent.gguf' }] }, /"hal-1\.0": .*absent\.gguf does not exist/],
  ];
  for (const [content, message] of cases) {
    const folder = t.testdir({ 'catalog.json': JSON.stringify(content) });
    t.throws(() => readCatalog(join(folder, 'catalog.json')), { name: 'CatalogError', message });
  }
  t.throws(() => readCatalog(join(t.testdir({ 'catalog.json': '{' }), 'catalog.json')), {
    name: 'CatalogError',
    message: /catalog\.json: /,
  });
});

t.test('the size of a split model is the sum of its parts', async (t) => {
  const folder = t.testdir({
    'big-00001-of-00003.gguf': 'a',
    'big-00002-of-00003.gguf': 'bb',
    'big-00003-of-00003.gguf': 'cccc',
    'big-00001-of-00002.gguf': 'another',
    'bigger-00002-of-00003.gguf': 'another',
    'big-x0002-of-00003.gguf.part': 'no',
  });
  t.equal(modelBytes(join(folder, 'big-00001-of-00003.gguf')), 7);
  t.equal(modelBytes(join(folder, 'big-00002-of-00003.gguf')), 2, 'the size of any other part is just its own');
  t.equal(modelBytes(join(folder, 'absent-00001-of-00002.gguf')), null);
});

t.test('modelOfFile accepts any model file under any valid name', async (t) => {
  t.match(modelOfFile('mine', starterPath), {
    id: 'mine',
    file: starterPath,
    display_name: 'mine',
    context_window: null,
  });
  t.throws(() => modelOfFile('mine', '/nowhere.gguf'), {
    name: 'CatalogError',
    message: /nowhere\.gguf: does not exist/,
  });
  t.throws(() => modelOfFile('mine', join(builtInCatalog, '..')), {
    message: /is neither a file nor a folder with a config\.json/,
  });
  t.throws(() => modelOfFile('a b', starterPath), { message: /model name "a b": must be/ });
});

t.test(
  'a model uses the sampling settings recommended by its GGUF file unless an operator overrides them',
  async (t) => {
    const folder = t.testdir();
    const plain = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 };
    const samplingOf = (metadata: Metadata, cut = 0): object => {
      const path = join(folder, 'm.gguf');
      const { head } = ggufHead([['general.architecture', { type: 'string', value: 'llama' }], ...metadata], []);
      writeFileSync(path, head.subarray(0, head.length - cut));
      return modelOfFile('m', path).sampling;
    };
    const recommended: Metadata = [
      ['general.sampling.temp', { type: 'float32', value: 0.6 }],
      ['general.sampling.top_k', { type: 'uint32', value: 20 }],
      ['general.sampling.top_p', { type: 'float32', value: 0.95 }],
      ['general.sampling.min_p', { type: 'float32', value: 0.05 }],
      ['general.sampling.penalty_repeat', { type: 'float32', value: 1.1 }],
      ['general.sampling.mirostat', { type: 'uint32', value: 2 }],
    ];
    t.same(samplingOf([]), plain);
    t.same(
      samplingOf(recommended),
      { temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0.05, repetition_penalty: 1.1 },
      'the values are those written in the file, without float32 rounding',
    );
    t.same(
      samplingOf([
        ['general.sampling.temp', { type: 'float32', value: 9 }],
        ['general.sampling.top_k', { type: 'float32', value: 0.5 }],
        ['general.sampling.top_p', { type: 'string', value: '0.9' }],
        ['general.sampling.min_p', { type: 'float32', value: NaN }],
        ['general.sampling.penalty_repeat', { type: 'float32', value: 1.25 }],
      ]),
      { ...plain, repetition_penalty: 1.25 },
      'invalid recommendations are ignored, and the others are used',
    );
    t.same(samplingOf(recommended, 40), plain, 'an unreadable file gives the defaults; loading it reports the error');
    samplingOf(recommended);
    const [set] = withOverrides([modelOfFile('m', join(folder, 'm.gguf'))], { m: { sampling: { temperature: 0.2 } } });
    t.match(set, { sampling: { temperature: 0.2, top_k: 20 } });
  },
);

t.test('overrides change only the fields that they set', async (t) => {
  const models = readCatalog();
  const [hal, clarke] = withOverrides(models, {
    'hal-1.0': { context_window: 512, sampling: { top_k: 40 }, display_name: undefined },
  });
  t.match(hal, {
    context_window: 512,
    display_name: 'HAL 1.0',
    sampling: { top_k: 40, temperature: models[0]!.sampling.temperature },
  });
  t.same(clarke, models[1]);
  t.throws(() => withOverrides(models, { nobody: {} }), {
    message: /"nobody" is not one of hal-1\.0, clarke-1\.0, tycho-1\.0/,
  });
});

t.test('a draft model must be a different model without a draft model', async (t) => {
  const models = readCatalog();
  const draftsOf = (overrides: Record<string, { draft?: string | null }>): ReturnType<typeof checkedDrafts> =>
    checkedDrafts(withOverrides(models, overrides));
  t.equal(draftsOf({ 'hal-1.0': { draft: null } }).size, 0);
  t.same(
    [...draftsOf({ 'hal-1.0': { draft: 'tycho-1.0' }, 'clarke-1.0': { draft: 'tycho-1.0' } })].map(
      ([name, { file }]) => [name, file],
    ),
    [
      ['hal-1.0', models[2]!.file],
      ['clarke-1.0', models[2]!.file],
    ],
  );
  t.same(
    [...draftsOf({ 'hal-1.0': { draft: builtInCatalog } })],
    [['hal-1.0', { file: builtInCatalog }]],
    'the draft model may also be a file path',
  );
  const refusals: [Record<string, { draft: string }>, RegExp][] = [
    [
      { 'hal-1.0': { draft: 'nobody' } },
      /models "hal-1\.0": draft: "nobody" is neither one of hal-1\.0, clarke-1\.0, tycho-1\.0, discovery-embed-1\.0 nor a file$/,
    ],
    [{ 'hal-1.0': { draft: 'hal-1.0' } }, /models "hal-1\.0": draft: a model cannot be its own draft/],
    [
      { 'hal-1.0': { draft: 'clarke-1.0' }, 'clarke-1.0': { draft: 'tycho-1.0' } },
      /models "hal-1\.0": draft: "clarke-1\.0" itself has a draft model, "tycho-1\.0"/,
    ],
  ];
  for (const [overrides, message] of refusals) t.throws(() => draftsOf(overrides), { name: 'CatalogError', message });
});
