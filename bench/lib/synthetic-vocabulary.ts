// A byte-level BPE vocabulary of any size that merges English-looking text like a real vocabulary. It contains every
// byte, then the merges learned from a few hundred common words, then tokens extended letter by letter along a Markov
// chain of those words, then control tokens for ChatML. No part of it is taken from another vocabulary.

import { byteCharacters, GGUF_CONTROL, GGUF_NORMAL } from './byte-level.js';
import type { Metadata } from './gguf-writer.js';

const COMMON_WORDS = `the of and to in is that it was for on are as with his they at be this from have or by one had not
but what all were when we there can an your which their said if do will each about how up out them
then she many some so these would other into has more her two like him see time could no make than
first been its who now people my made over did down only way find use may water long little very
after words called just where most know get through back much before go good new write our used me
man too any day same right look think also around another came come work three word must because
does part even place well such here take why things help put years different away again off went
old number great tell men say small every found still between name should home big give air line
set own under read last never us left end along while might next sound below saw something thought
both few those always looked show large often together asked house world going want school
important until form food keep children feet land side without boy once animals life enough took
sometimes four head above kind began almost live page got earth need far hand high year mother
light parts country father let night following picture being study second eyes soon times story
since white days ever paper hard near sentence better best across during today others however sure
means knew try told young miles sun ways thing whole hear example heard several change answer room
sea against top turned learn point city play toward five using himself usually the the the of of
and and to to in in a a a i function return value const string number result error request
response`;

const CONTROL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;
const TEMPLATE =
  `{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}` +
  `{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`;

const SPACE = 'Ġ',
  NEWLINE = 'Ċ';
const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];

// The words, weighted by rank as in natural language (Zipf's law).
function weightedWords(): Map<string, number> {
  const weights = new Map<string, number>();
  COMMON_WORDS.split(/\s+/).forEach((word, rank) => weights.set(word, (weights.get(word) ?? 0) + 1000 / (rank + 10)));
  return weights;
}

type Merge = [left: string, right: string];

// BPE training: repeatedly merges the pair of adjacent symbols with the highest weight until every word is one token.
function trainMerges(words: Map<string, number>): Merge[] {
  const merges: Merge[] = [];
  const corpus = [...words].map(([word, weight]) => ({ symbols: [SPACE, ...word], weight }));
  for (;;) {
    const pairs = new Map<string, number>(); // keys are 'left right', because no symbol contains a space
    for (const { symbols, weight } of corpus)
      for (let i = 0; i + 1 < symbols.length; i++) {
        const pair = `${symbols[i]} ${symbols[i + 1]}`;
        pairs.set(pair, (pairs.get(pair) ?? 0) + weight);
      }
    let best = '',
      heaviest = 0;
    for (const [pair, weight] of pairs) if (weight > heaviest) [best, heaviest] = [pair, weight];
    const [left, right] = best.split(' ');
    if (left === undefined || right === undefined) return merges;
    merges.push([left, right]);
    for (const { symbols } of corpus)
      for (let i = 0; i + 1 < symbols.length; i++)
        if (symbols[i] === left && symbols[i + 1] === right) symbols.splice(i, 2, left + right);
  }
}

// P(letter | previous letter), where SPACE marks the start of a word. Smoothed so that every pair can occur.
function letterChain(words: Map<string, number>): Map<string, [letter: string, probability: number][]> {
  const counts = new Map<string, Map<string, number>>();
  for (const before of [SPACE, ...LETTERS]) counts.set(before, new Map(LETTERS.map((letter) => [letter, 0.02])));
  for (const [word, weight] of words) {
    let before = SPACE;
    for (const letter of word) {
      const row = counts.get(before);
      row?.set(letter, (row.get(letter) ?? 0) + weight);
      before = letter;
    }
  }
  return new Map(
    [...counts].map(([before, row]) => {
      const total = [...row.values()].reduce((sum, n) => sum + n, 0);
      return [before, [...row].map(([letter, n]): [string, number] => [letter, n / total])];
    }),
  );
}

interface Piece {
  readonly text: string;
  readonly probability: number;
}

// Returns the merges of all words. They are learned only once, because training takes seconds and a shorter list of
// merges is a prefix of a longer one.
let trained: Merge[] | null = null;
const trainedMerges = (words: Map<string, number>): Merge[] => (trained ??= trainMerges(words));

// Returns `count` merges: runs of blanks, the learned merges, then longer and longer tokens, each made of an earlier
// token and a letter.
function allMerges(count: number): Merge[] {
  const words = weightedWords();
  const blanks: Merge[] = [
    [SPACE, SPACE],
    [NEWLINE, NEWLINE],
    [SPACE + SPACE, SPACE + SPACE],
    [SPACE.repeat(4), SPACE.repeat(4)],
  ];
  const merges = [...blanks, ...trainedMerges(words).slice(0, count)];
  const made = new Set(merges.map(([left, right]) => left + right));
  const chain = letterChain(words);
  let pieces: Piece[] = [{ text: SPACE, probability: 1 }, ...LETTERS.map((text) => ({ text, probability: 0.01 }))];
  while (merges.length < count) {
    const longer: (Piece & { merge: Merge })[] = [];
    for (const { text: left, probability } of pieces)
      for (const [right, p] of chain.get(left.at(-1) ?? '') ?? [])
        longer.push({ merge: [left, right], text: left + right, probability: probability * p });
    longer.sort((a, b) => b.probability - a.probability); // The sort is stable, so the order is always the same.
    // Each length gets a third of the tokens that are still missing, so that there are long tokens too. All two-letter
    // tokens are always included.
    const kept = longer.slice(0, Math.max(702, Math.ceil((count - merges.length) / 3)));
    for (const { merge, text } of kept) {
      if (made.has(text)) continue;
      made.add(text);
      merges.push(merge);
    }
    pieces = kept;
  }
  return merges.slice(0, count);
}

export const MIN_VOCABULARY = 256 + CONTROL_TOKENS.length;
export const MAX_VOCABULARY = 1 << 18; // the size of the largest vocabularies in use; takes a few seconds to create

// Returns the tokenizer.* keys for a vocabulary of `size` tokens (MIN_VOCABULARY to MAX_VOCABULARY).
export function syntheticTokenizer(size: number): Metadata {
  if (latest?.size !== size) latest = { size, keys: tokenizerOf(size) };
  return [...latest.keys];
}

// The latest vocabulary is cached, because tests write many models of one size.
let latest: { readonly size: number; readonly keys: Metadata } | null = null;

function tokenizerOf(size: number): Metadata {
  const merges = allMerges(size - MIN_VOCABULARY);
  const tokens = [...byteCharacters(), ...merges.map(([left, right]) => left + right), ...CONTROL_TOKENS];
  if (new Set(tokens).size !== size) throw new Error(`the vocabulary of ${size} tokens has duplicates`);
  const types = tokens.map((_, id) => (id < size - CONTROL_TOKENS.length ? GGUF_NORMAL : GGUF_CONTROL));
  return [
    ['tokenizer.ggml.model', { type: 'string', value: 'gpt2' }],
    ['tokenizer.ggml.pre', { type: 'string', value: 'qwen2' }],
    ['tokenizer.ggml.tokens', { type: 'strings', value: tokens }],
    ['tokenizer.ggml.token_type', { type: 'int32s', value: types }],
    ['tokenizer.ggml.merges', { type: 'strings', value: merges.map(([left, right]) => `${left} ${right}`) }],
    ['tokenizer.ggml.bos_token_id', { type: 'uint32', value: size - 3 }],
    ['tokenizer.ggml.eos_token_id', { type: 'uint32', value: size - 1 }],
    ['tokenizer.ggml.padding_token_id', { type: 'uint32', value: size - 3 }],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: false }],
    ['tokenizer.chat_template', { type: 'string', value: TEMPLATE }],
  ];
}
