import { basename, join } from 'node:path';
import t from 'tap';
import { visionFileOf } from '../../src/engine/vision-file.js';

t.test('a vision encoder in the folder of its model is found under common names', async (t) => {
  const cases: [file: string, beside: string[], expected: string | null][] = [
    ['gemma-3-4b-it-Q4_K_M.gguf', ['mmproj-model-f16.gguf'], 'mmproj-model-f16.gguf'],
    [
      'gemma-3-4b-it-Q4_K_M.gguf',
      ['gemma-3-4b-it-Q8_0.gguf', 'mmproj-F16.gguf', 'mmproj-BF16.gguf', 'mmproj-F32.gguf'],
      'mmproj-BF16.gguf',
    ],
    [
      'Qwen3-VL-2B-Q8_0.gguf',
      ['Qwen3-VL-4B-Q8_0.gguf', 'mmproj-Qwen3-VL-4B-F16.gguf', 'mmproj-Qwen3-VL-2B-F16.gguf'],
      'mmproj-Qwen3-VL-2B-F16.gguf',
    ],
    [
      'SmolVLM-256M-Instruct-Q8_0.gguf',
      ['SmolVLM-256M-Instruct.mmproj.gguf', 'other.gguf'],
      'SmolVLM-256M-Instruct.mmproj.gguf',
    ],
    ['big-00001-of-00002.gguf', ['big-00002-of-00002.gguf', 'mmproj.gguf'], 'mmproj.gguf'],
    // The directory contains two models, so it is unclear which of them the vision encoder belongs to.
    ['a.gguf', ['b.gguf', 'mmproj-F16.gguf'], null],
    ['a.gguf', ['notes.txt'], null],
    ['a.gguf', [], null],
  ];
  for (const [file, beside, expected] of cases) {
    const folder = t.testdir(Object.fromEntries([file, ...beside].map((name) => [name, ''])));
    const found = visionFileOf({ file: join(folder, file) });
    t.equal(found === null ? null : basename(found.path), expected, [file, ...beside].join(' '));
    if (found !== null) t.equal(found.found, true);
    t.equal(visionFileOf({ file: join(folder, file), vision: null }), null, 'vision: null disables the search');
    t.same(visionFileOf({ file: join(folder, file), vision: '/elsewhere.gguf' }), {
      path: '/elsewhere.gguf',
      found: false,
    });
  }
  const folder = t.testdir({ 'config.json': '{}', 'mmproj-model.gguf': '' });
  t.match(
    visionFileOf({ file: folder }),
    { path: join(folder, 'mmproj-model.gguf'), found: true },
    'the encoder is also found in a safetensors folder',
  );
  t.equal(visionFileOf({ file: join(folder, 'absent', 'a.gguf') }), null);
});

t.test('the vision encoder of a safetensors folder is used if config.json declares one', async (t) => {
  const found = (config: string, more: Record<string, string> = {}): ReturnType<typeof visionFileOf> =>
    visionFileOf({ file: t.testdir({ 'config.json': config, ...more }) });
  t.same(found('{"vision_config":{"depth":2}}'), { path: t.testdirName, found: true });
  t.match(
    found('{"vision_config":{"depth":2}}', { 'mmproj.gguf': '' }),
    { path: join(t.testdirName, 'mmproj.gguf') },
    'a separate vision encoder file takes precedence',
  );
  for (const config of ['{}', '{"vision_config":null}', '{"vision_config":7}', '[]', 'null', '{', ''])
    t.equal(found(config), null, config);
});
