// A byte-level vocabulary of 128,000 tokens, similar to the vocabularies of published models, made from the texts in
// this repository: bytes, numbers, runs of blanks, frequent words and punctuation from code and prose, and characters
// from other scripts. It has no merges, so text is tokenized by longest match. The same texts give the same vocabulary.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { byteCharacters, GGUF_NORMAL, GGUF_CONTROL } from './byte-level.js';
import type { Metadata } from './gguf-writer.js';

const SIZE = 128_000;
/** Maximum number of tokens taken from the texts. The rest are characters of other scripts. */
const FROM_TEXTS = 100_000;
const LONGEST_PREFIX = 16,
  LONGEST_INNER = 5;

/** The directories to read, and the types of the files to read in each directory. */
const FOLDERS = ['bench', 'docs', 'models/training', 'native', 'src', 'test'] as const;
const TEXTS = /\.(ts|mjs|tsx|cc|h|py|md|json|txt)$/;
const MAX_OF_A_FILE = 1 << 19;

const PIECES = /'(?:[sdmt]|ll|ve|re)|[^\r\n\w]?[A-Za-z_]+|\d{1,3}| ?[^\s\w]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+/g;

/** JSON delimiters that tokenizers usually learn as whole tokens. */
const JSON_PIECES = [
  '":',
  '": "',
  '","',
  '", "',
  '"}',
  '"},',
  '"]',
  '{"',
  '["',
  '},',
  '}}',
  ']}',
  ':"',
  '":{"',
  '":["',
  '"},{"',
  '"}]',
  '"],"',
  ' "',
  '"\n',
  '",\n',
  '":\n',
  '" :',
  '"]}',
  '\\"',
  '\\n',
  '\\u',
  '\\"}',
  '".',
  '",',
  '")',
  '";',
  '">',
  '"/>',
  '="',
  '=""',
  '""',
  ':""',
  '":"',
  '":[',
  '":{',
  '":"",',
  '":true',
  '":null',
];

const SCRIPTS: readonly [first: number, last: number][] = [
  [0x400, 0x4ff],
  [0x4e00, 0x9fff],
  [0x3040, 0x30ff],
  [0xac00, 0xd7a3],
  [0x600, 0x6ff],
  [0x900, 0x97f],
  [0xe00, 0xe7f],
  [0xc0, 0x24f],
  [0x370, 0x3ff],
];

/** Returns the tokenizer.* keys of the vocabulary. */
export function textTokenizer(root: string): Metadata {
  const spelling = byteCharacters();
  const tokens: string[] = [];
  const seen = new Set<string>();
  const add = (bytes: Uint8Array): void => {
    let text = '';
    for (const byte of bytes) text += spelling[byte] as string;
    if (!seen.has(text)) {
      seen.add(text);
      tokens.push(text);
    }
  };
  const addText = (text: string): void => add(Buffer.from(text));
  for (let byte = 0; byte < 256; byte++) add(Uint8Array.of(byte));
  for (let number = 0; number < 1_000; number++) addText(String(number));
  for (let length = 2; length <= 64; length++) for (const blank of ' \n\t-=*') addText(blank.repeat(length));
  JSON_PIECES.forEach(addText);
  for (const bytes of frequentPieces(root)) {
    if (tokens.length >= FROM_TEXTS) break;
    add(bytes);
  }
  const draw = randomOf(1);
  while (tokens.length < SIZE - 1) {
    const [first, last] = SCRIPTS[draw(SCRIPTS.length)] as [number, number];
    let text = draw(3) === 0 ? ' ' : '';
    for (let left = [1, 1, 2, 2, 3, 4][draw(6)] as number; left > 0; left--)
      text += String.fromCodePoint(first + draw(last - first + 1));
    const bytes = Buffer.from(text);
    add(draw(20) === 0 ? bytes.subarray(0, -1) : bytes);
  }
  tokens.push('<|endoftext|>');
  const types = tokens.map((_, id) => (id < SIZE - 1 ? GGUF_NORMAL : GGUF_CONTROL));
  return [
    ['general.architecture', { type: 'string', value: 'llama' }],
    ['tokenizer.ggml.model', { type: 'string', value: 'gpt2' }],
    ['tokenizer.ggml.pre', { type: 'string', value: 'qwen2' }],
    ['tokenizer.ggml.tokens', { type: 'strings', value: tokens }],
    ['tokenizer.ggml.token_type', { type: 'int32s', value: types }],
    ['tokenizer.ggml.merges', { type: 'strings', value: [] }],
    ['tokenizer.ggml.eos_token_id', { type: 'uint32', value: SIZE - 1 }],
  ];
}

/** Returns prefixes and inner parts of words, sorted by how much text each would save. */
function frequentPieces(root: string): Uint8Array[] {
  const words = new Map<string, number>();
  for (const path of textFiles(root)) {
    const text = readFileSync(path, 'utf8').slice(0, MAX_OF_A_FILE);
    for (const [word] of text.matchAll(PIECES)) words.set(word, (words.get(word) ?? 0) + 1);
  }
  const pieces = new Map<string, number>(); // keys are byte strings as Latin-1
  const count = (piece: string, times: number): void => void pieces.set(piece, (pieces.get(piece) ?? 0) + times);
  for (const [word, times] of words) {
    const bytes = Buffer.from(word).toString('latin1');
    for (let length = 2; length <= Math.min(bytes.length, LONGEST_PREFIX); length++)
      count(bytes.slice(0, length), times);
    for (let at = 1; at < Math.min(bytes.length, 64); at++) {
      for (let length = 2; length <= LONGEST_INNER && at + length <= bytes.length; length++)
        count(bytes.slice(at, at + length), times / 2);
    }
  }
  const weight = ([piece, times]: [string, number]): number => times * piece.length;
  return [...pieces]
    .sort((a, b) => weight(b) - weight(a) || (a[0] < b[0] ? -1 : 1))
    .map(([piece]) => Buffer.from(piece, 'latin1'));
}

function textFiles(root: string): string[] {
  const files: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.name === 'node_modules' || entry.name.startsWith('.')) continue;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) walk(path);
      else if (entry.isFile() && TEXTS.test(entry.name)) files.push(path);
    }
  };
  for (const folder of FOLDERS) walk(join(root, folder));
  return files.sort();
}

/** A random generator that returns the same numbers every time. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
