// Tests model references, and which files in a hub repository are recognized as weights that can be served.

import t from 'tap';
import { HubError } from '../../src/hub/hub-error.js';
import { chooseWeights, projectorFor, quantizationOf, weightsOf } from '../../src/hub/hub-files.js';
import type { HubFile } from '../../src/hub/hub-files.js';
import { isSafePath } from '../../src/hub/hub-cache.js';
import { parseModelRef, showModelRef } from '../../src/hub/model-ref.js';

const files = (sizes: Record<string, number>): HubFile[] =>
  Object.entries(sizes).map(([path, bytes]) => ({ path, bytes, hash: '' }));
const failure = (work: () => unknown): string => {
  try {
    work();
    return 'none';
  } catch (error) {
    return error instanceof HubError ? `${error.failure}: ${error.message}` : String(error);
  }
};

t.test('parses and formats model references', (t) => {
  t.same(parseModelRef('owner/model-GGUF'), { repo: 'owner/model-GGUF', weights: null, revision: 'main' });
  t.same(parseModelRef('hf:o/m:Q4_K_M@v1.0'), { repo: 'o/m', weights: 'Q4_K_M', revision: 'v1.0' });
  t.same(parseModelRef('o/m:sub/m-q8_0.gguf'), { repo: 'o/m', weights: 'sub/m-q8_0.gguf', revision: 'main' });
  for (const text of ['o/m', 'o/m:Q8_0', 'o/m:Q8_0@dev', 'o/m@dev']) t.equal(showModelRef(parseModelRef(text)), text);
  for (const text of [
    '',
    'model',
    'a/b/c',
    '../m',
    'o/..',
    'o/m..x',
    'o--x/m',
    'o/m:',
    'o/m:../x',
    'o/m:a/../b',
    'o/m@',
    'o/m@../x',
    'https://x/y',
    'o /m',
    'o/m\n',
    '-o/m',
  ]) {
    t.match(
      failure(() => parseModelRef(text)),
      /^bad_name: .* is not a model reference: .*Expected OWNER\/REPO/,
      JSON.stringify(text),
    );
  }
  t.end();
});

t.test('accepts file paths only if they stay inside their folder', (t) => {
  for (const path of [
    'a',
    'a/b.gguf',
    '.hidden',
    'modèle-ä-模型-😀.gguf',
    'می\u200cخواهم.md',
    'x'.repeat(255),
    `${'é'.repeat(127)}x`,
    '👩\u200d💻.png',
  ])
    t.ok(isSafePath(path), path);
  for (const path of [
    '',
    '/a',
    'a//b',
    '../a',
    'a/../b',
    'a/.',
    'a\\b',
    'a\0',
    'a\n',
    'a\u009b2J',
    'a\u202eb',
    'a\u200bb',
    'a\u2028b',
    'a\ud800b',
    'x'.repeat(600),
    'x'.repeat(256),
    `a/${'é'.repeat(128)}/b`,
  ])
    t.notOk(
      isSafePath(path),
      [...path.slice(0, 20)]
        .map((one) => (one > ' ' && one < '~' ? one : `U+${one.codePointAt(0)!.toString(16)}`))
        .join(''),
    );
  t.end();
});

t.test('recognizes the quantization in a file name', (t) => {
  for (const [path, quantization] of [
    ['model-Q4_K_M.gguf', 'Q4_K_M'],
    ['model.q8_0.gguf', 'Q8_0'],
    ['Llama-3.2-1B-Instruct-IQ2_XXS.gguf', 'IQ2_XXS'],
    ['m-UD-Q4_K_XL.gguf', 'UD-Q4_K_XL'],
    ['UD-Q2_K_XL/m-00001-of-00003.gguf', 'UD-Q2_K_XL'],
    ['Q6_K/m-Q6_K-00001-of-00002.gguf', 'Q6_K'],
    ['gpt-oss-20b-mxfp4.gguf', 'MXFP4'],
    ['m-bf16.gguf', 'BF16'],
    ['m-fp16.gguf', 'FP16'],
    ['m-TQ1_0.gguf', 'TQ1_0'],
    ['qwen2-f16-Q5_1.gguf', 'Q5_1'],
    ['ggml-model.gguf', null],
    ['m.NVFP4.gguf', 'NVFP4'],
  ] as const)
    t.equal(quantizationOf(path), quantization, path);
  t.end();
});

t.test('lists the weights that can be served and chooses among them', (t) => {
  const all = files({
    'README.md': 10,
    'm-Q8_0.gguf': 800,
    'm-Q4_K_M.gguf': 400,
    'm-F16.gguf': 1600,
    'mmproj-m-f16.gguf': 50,
    'mmproj-m-q8_0.gguf': 30,
    'imatrix.gguf': 5,
    'm-Q4_0_4_4.gguf': 300,
    'big/m-Q6_K-00001-of-00002.gguf': 350,
    'big/m-Q6_K-00002-of-00002.gguf': 300,
    'm-Q5_K-00001-of-00003.gguf': 100,
    'm-Q5_K-00003-of-00003.gguf': 100,
  });
  const found = weightsOf(all);
  t.same(
    found.map(({ quantization, entry, bytes, files: parts }) => [quantization, entry, bytes, parts.length]),
    [
      ['Q4_K_M', 'm-Q4_K_M.gguf', 400, 1],
      ['Q6_K', 'big/m-Q6_K-00001-of-00002.gguf', 650, 2],
      ['Q8_0', 'm-Q8_0.gguf', 800, 1],
      ['F16', 'm-F16.gguf', 1600, 1],
    ],
    'weights are sorted by size; incomplete split files, projectors, importance matrices and repacked tensors are skipped',
  );
  t.equal(projectorFor(found[0]!, all)?.path, 'mmproj-m-f16.gguf');

  const by = (wanted: string | null, memory: number): string =>
    chooseWeights('o/m', found, wanted, memory).quantization;
  t.equal(by(null, 10_000), 'Q8_0', 'chooses at most eight bits per weight');
  t.equal(by(null, 1_500), 'Q6_K', 'chooses weights that fit into half of the memory');
  t.equal(by(null, 500), 'Q4_K_M', 'chooses the smallest weights if none fit into half of the memory');
  t.match(
    failure(() => by(null, 300)),
    /^too_large: the smallest weights of o\/m, Q4_K_M, take 400 bytes, and this machine has 300 bytes\. .*o\/m:Q4_K_M$/,
  );
  t.equal(by('q8_0', 1), 'Q8_0', 'named weights are chosen regardless of size and letter case');
  t.equal(by('big/m-Q6_K-00002-of-00002.gguf', 1), 'Q6_K', 'a split file can be named by any of its parts');
  t.match(
    failure(() => by('Q3_K', 1)),
    /^no_such_weights: o\/m has no "Q3_K"; it has Q4_K_M \(400 bytes\), Q6_K/,
  );
  t.match(
    failure(() => chooseWeights('o/m', weightsOf(files({ 'a-Q8_0.gguf': 1, 'b-Q8_0.gguf': 2 })), 'Q8_0', 1)),
    /^no_such_weights: .* 2 times; name the file: o\/m:a-Q8_0\.gguf, o\/m:b-Q8_0\.gguf$/,
  );
  t.match(
    failure(() => chooseWeights('o/m', weightsOf(files({ 'pytorch_model.bin': 1, 'config.json': 1 })), null, 1)),
    /^no_such_weights: o\/m has no servable weights: .*never read/,
  );
  t.equal(
    chooseWeights('o/m', weightsOf(files({ 'm-BF16.gguf': 5 })), null, 100).quantization,
    'BF16',
    'larger weights are chosen if there are no others',
  );
  t.end();
});

t.test('a folder of safetensors is one set of weights', (t) => {
  const all = files({
    'config.json': 1,
    'tokenizer.json': 2,
    'model-00001-of-00002.safetensors': 100,
    'model-00002-of-00002.safetensors': 90,
    'model.safetensors.index.json': 3,
    'consolidated.safetensors': 500,
    'modeling_x.py': 9,
    'pytorch_model.bin': 100,
    'chat_template.jinja': 4,
    'sub/other.safetensors': 7,
    'preprocessor_config.json': 1,
  });
  const [folder] = weightsOf(all);
  t.match(folder, { quantization: 'safetensors', entry: '', bytes: 190 });
  t.same(
    folder!.files.map(({ path }) => path),
    [
      'config.json',
      'tokenizer.json',
      'model.safetensors.index.json',
      'chat_template.jinja',
      'preprocessor_config.json',
      'model-00001-of-00002.safetensors',
      'model-00002-of-00002.safetensors',
    ],
    'executable files are left out',
  );
  t.match(
    failure(() => chooseWeights('o/m', [folder!], null, 100)),
    /^too_large: .*o\/m:safetensors$/,
  );
  t.equal(
    chooseWeights('o/m', weightsOf([...all, ...files({ 'm-Q4_K_M.gguf': 40 })]), null, 1000).quantization,
    'Q4_K_M',
    'GGUF is preferred',
  );
  t.end();
});
