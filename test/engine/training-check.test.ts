import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { plainText } from '../addon/starter.js';
import { builtInCatalog, readCatalog } from '../../src/engine/catalog.js';
import { loadAddon, packageRoot } from '../../src/engine/load-addon.js';

const run = promisify(execFile);

t.test('the training text check uses the prompt options of this version and reports texts that differ', async (t) => {
  const model = readCatalog(builtInCatalog).find(({ id }) => id === 'tycho-1.0')?.file ?? '';
  const text = '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n';
  const ids = [...loadAddon().loadTokenizer(model).tokenize(text, plainText)];
  const record = {
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello!' },
    ],
  };
  const folder = t.testdir({
    right: JSON.stringify({ record, text, ids }),
    wrong: JSON.stringify({ record, text: text.replace('Hi', 'Ho'), ids }),
  });
  const check = (lines: string) =>
    run(process.execPath, [join(packageRoot, 'models/training/check.mjs'), model, join(folder, lines)]);
  t.match((await check('right')).stdout, '1 records: prompts, whole texts and tokens agree');
  const told = await check('wrong').then(
    () => '',
    (error: { stderr?: string }) => error.stderr ?? '',
  );
  t.match(told, /the prompt of this record differs/);
});
