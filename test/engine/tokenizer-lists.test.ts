// Compares the token ids of 200 texts with those from Hugging Face's library, for small vocabularies that use the same
// tokenization steps as published files. `npm run test:tokenizers -- --save` writes tokenizer-lists.json; without
// --save, the same command compares the published vocabularies themselves.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadAddon, packageRoot } from '../../src/engine/load-addon.js';

interface Saved {
  models: { vocab: Record<string, number> }[];
  lists: { name: string; model: number; steps: object; cases: [string, number[]][] }[];
}
interface Files {
  rowsOf(tokenizer: object): number;
  writeFolder(folder: string, tokenizer: object, rows: number): string;
  writeGguf(path: string, tokenizer: object, pre: string): string;
}

const { rowsOf, writeFolder, writeGguf } = (await import(
  join(packageRoot, 'scripts', 'tokenizers', 'files.mjs')
)) as Files;
const { models, lists } = JSON.parse(
  readFileSync(join(packageRoot, 'test', 'engine', 'tokenizer-lists.json'), 'utf8'),
) as Saved;
/** llama.cpp's pre-tokenizer name for each vocabulary whose published file has the same tokenization steps. */
const GGUF: Record<string, string> = {
  'Qwen 3': 'qwen2',
  'DeepSeek V3': 'deepseek-v3',
  'Llama 3': 'dbrx',
  'GPT-4o': 'gpt-4o',
  'Command R': 'command-r',
};

t.equal(
  lists.reduce((sum, { cases }) => sum + cases.length, 0),
  200,
  'there are as many texts as documented',
);
for (const { name, model, steps, cases } of lists) {
  t.test(`${name}: token ids equal those of the Hugging Face library`, (t) => {
    const tokenizer = { ...steps, model: models[model] };
    const compare = (path: string, chosen = cases): void => {
      const loaded = loadAddon().loadTokenizer(path);
      for (const [text, ids] of chosen)
        t.same(
          Array.from(loaded.tokenize(text, { addSpecial: false, parseSpecial: true, guard: 0 })),
          ids,
          JSON.stringify(text),
        );
    };
    const folder = writeFolder(t.testdir({}), tokenizer, rowsOf(tokenizer));
    compare(folder);
    const pre = GGUF[name];
    // GGUF cannot express tokens that match only in normalized text.
    const gguf = cases.filter(([text]) => !text.includes('nai\u0308ve'));
    if (pre !== undefined) compare(writeGguf(join(folder, 'model.gguf'), tokenizer, pre), gguf);
    t.end();
  });
}
