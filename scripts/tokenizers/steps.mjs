// Small generated vocabularies that cover every component a tokenizer.json can contain, compared with the results of
// Hugging Face's library. A component must be applied as the library applies it, or the file must be refused with an
// error that names the component.
import { rowsOf, writeFolder } from './files.mjs';
import { texts } from './texts.mjs';

const BYTE_CHARACTERS = (() => {
  // GPT-2's printable characters for bytes.
  const printable = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
})();

/**
 * Learns the merges of the most frequent adjacent pairs, counted across whole texts. Merges may cross word boundaries,
 * so a wrong split by the pre-tokenizer changes which merges apply.
 */
function learnMerges(sequences, count) {
  const merges = [];
  for (let round = 0; round < count; round++) {
    const counts = new Map();
    for (const symbols of sequences)
      for (let i = 1; i < symbols.length; i++) {
        const pair = `${symbols[i - 1]} ${symbols[i]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    const [best] = [...counts].reduce((a, b) => (b[1] > a[1] || (b[1] === a[1] && b[0] < a[0]) ? b : a), ['', 1]);
    if (best === '') break;
    const [left, right] = best.split(' ');
    merges.push([left, right]);
    for (const [at, symbols] of sequences.entries()) {
      const merged = [];
      for (let i = 0; i < symbols.length; i++)
        merged.push(symbols[i] === left && symbols[i + 1] === right ? symbols[i++] + right : symbols[i]);
      sequences[at] = merged;
    }
  }
  return merges;
}

function vocabularyOf(first, merges) {
  const tokens = [...new Set([...first, ...merges.map(([left, right]) => left + right)])];
  return Object.fromEntries(tokens.map((token, id) => [token, id]));
}

const LEARNED_FROM = () => texts(160, [], 7).filter((text) => !text.includes('\u2581'));

/** Byte-level BPE. */
export function byteModel(merges = 400) {
  const sequences = LEARNED_FROM()
    .flatMap((text) => [text, text.normalize('NFC')])
    .map((text) => Array.from(Buffer.from(text), (byte) => BYTE_CHARACTERS[byte]));
  const learned = learnMerges(sequences, merges);
  // For a space before an emoji, only tokens that contain both reveal a wrong split.
  const [space, lead] = [' ', '😀'].map((text) => BYTE_CHARACTERS[Buffer.from(text)[0]]);
  const emoji = [lead, ...learned.map(([left, right]) => left + right).filter((token) => token.startsWith(lead))];
  const joined = new Set(learned.map((pair) => pair.join('')));
  learned.push(...emoji.filter((token) => !joined.has(space + token)).map((token) => [space, token]));
  return {
    type: 'BPE',
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab: vocabularyOf(BYTE_CHARACTERS, learned),
    merges: learned,
  };
}

/** Character-level BPE with "▁" for spaces. With `bytes`, it has byte tokens, otherwise an unknown token. */
export function pieceModel(bytes, merges = 300) {
  const from = LEARNED_FROM()
    .slice(0, 80)
    .map((text) => [...text.replaceAll(' ', '▁')]);
  const characters = [...new Set(from.flat())].filter((_, at) => at % 5 !== 4); // leave some to byte tokens
  const runs = [
    ['▁', '▁'],
    ['▁▁', '▁▁'],
    ['▁', 'a'],
    ['▁▁', 'a'],
    ['e', '▁'],
  ];
  const known = from.map((symbols) => symbols.filter((symbol) => characters.includes(symbol)));
  const made = new Set(runs.map(([left, right]) => left + right));
  const learned = [...runs, ...learnMerges(known, merges).filter(([left, right]) => !made.has(left + right))];
  const first = [
    '<unk>',
    '<s>',
    '</s>',
    ...(bytes
      ? Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
      : []),
    ...new Set(['▁', 'a', 'e', ...characters]),
  ];
  return {
    type: 'BPE',
    dropout: null,
    unk_token: '<unk>',
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: true,
    byte_fallback: bytes,
    ignore_merges: false,
    vocab: vocabularyOf(first, learned),
    merges: learned,
  };
}

/** Unigram model with the tokens of pieceModel(), each scored by its length. */
export function unigramModel() {
  const { vocab } = pieceModel(false);
  return {
    type: 'Unigram',
    unk_id: 0,
    byte_fallback: false,
    vocab: Object.entries(vocab)
      .sort(([, a], [, b]) => a - b)
      .map(([piece], id) => [piece, id < 3 ? 0 : Math.fround(-12 + 2 * [...piece].length + Math.sin(id))]),
  };
}

const added = (content, id, flags = {}) => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: false,
  ...flags,
});
const split = (Regex, behavior = 'Isolated', invert = false) => ({
  type: 'Split',
  pattern: { Regex },
  behavior,
  invert,
});
const BYTE_LEVEL = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
const bytesAfter = (...steps) => ({ type: 'Sequence', pretokenizers: [...steps, BYTE_LEVEL] });
const SPACES = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
const PIECE_DECODER = {
  type: 'Sequence',
  decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }],
};
const QWEN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const LLAMA = QWEN.replace('\\p{N}| ', '\\p{N}{1,3}| ');
const CASES =
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const DEEPSEEK = [
  '\\p{N}{1,3}',
  '[一-龥぀-ゟ゠-ヿ]+',
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+',
];
const METASPACE = (prepend_scheme, splits) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme, split: splits });
const sequence = (...normalizers) => ({ type: 'Sequence', normalizers });

/** Configurations of published files, whose id lists are stored in the test suite. */
export function families() {
  const bytes = byteModel(),
    pieces = pieceModel(true);
  const bytesEnd = Object.keys(bytes.vocab).length,
    piecesEnd = Object.keys(pieces.vocab).length;
  const chat = [
    added('<|im_start|>', bytesEnd, { special: true }),
    added('<|im_end|>', bytesEnd + 1, { special: true }),
    added('<think>', bytesEnd + 2),
    added('naïve', bytesEnd + 3, { normalized: true }),
  ];
  const ofBytes = (normalizer, pre_tokenizer) => ({
    model: bytes,
    added_tokens: chat,
    normalizer,
    pre_tokenizer,
    decoder: BYTE_LEVEL,
  });
  const ofPieces = (normalizer, pre_tokenizer, tokens = []) => ({
    model: pieces,
    added_tokens: [added('<s>', 1, { special: true }), added('</s>', 2, { special: true }), ...tokens],
    normalizer,
    pre_tokenizer,
    decoder: PIECE_DECODER,
  });
  const runs = ['▁▁', '▁▁▁▁'].map((run) => added(run, pieces.vocab[run]));
  return [
    { name: 'Qwen 3', ...ofBytes({ type: 'NFC' }, bytesAfter(split(QWEN))) },
    { name: 'DeepSeek V3', ...ofBytes(sequence(), bytesAfter(...DEEPSEEK.map((one) => split(one)))) },
    { name: 'Llama 3', ...ofBytes(null, bytesAfter(split(LLAMA))) },
    { name: 'GPT-4o', ...ofBytes(null, bytesAfter(split(CASES, 'Removed', true))) },
    { name: 'Claude', ...ofBytes({ type: 'NFKC' }, { ...BYTE_LEVEL, use_regex: true }) },
    {
      name: 'Command R',
      ...ofBytes(
        { type: 'NFC' },
        {
          type: 'Sequence',
          pretokenizers: [
            { type: 'Digits', individual_digits: true },
            { ...BYTE_LEVEL, use_regex: true },
          ],
        },
      ),
    },
    {
      name: 'Gemma 3',
      ...ofPieces(SPACES, { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false }, [
        ...runs,
        added('<mask>', piecesEnd),
        added('\n\n', pieces.vocab['\n\n'] ?? piecesEnd + 1),
      ]),
    },
    {
      name: 'Llama 2',
      ...ofPieces(sequence({ type: 'Prepend', prepend: '▁' }, SPACES), null),
      decoder: {
        type: 'Sequence',
        decoders: [...PIECE_DECODER.decoders, { type: 'Strip', content: ' ', start: 1, stop: 0 }],
      },
    },
    { name: 'Metaspace', ...ofPieces(null, METASPACE('first', false)) },
    { name: 'Metaspace split', ...ofPieces(null, METASPACE('always', true)) },
  ].map(({ name, ...rest }) => ({ name, tokenizer: whole(rest) }));
}

const whole = (parts) => ({
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: null,
  ...parts,
});

/** Every component in isolation. `names`: text that the error must contain if the component is refused. */
function* steps() {
  const bytes = byteModel(),
    pieces = pieceModel(true),
    unknown = pieceModel(false),
    unigram = unigramModel();
  const end = Object.keys(bytes.vocab).length,
    piecesEnd = Object.keys(pieces.vocab).length;
  const ends = [
    added('<s>', pieces.vocab['<s>'], { special: true }),
    added('</s>', pieces.vocab['</s>'], { special: true }),
  ];
  const byteLevel = (parts) =>
    whole({ model: bytes, pre_tokenizer: { ...BYTE_LEVEL, use_regex: true }, decoder: BYTE_LEVEL, ...parts });
  const ofPieces = (parts) =>
    whole({ model: pieces, added_tokens: ends, normalizer: SPACES, decoder: PIECE_DECODER, ...parts });
  const ofUnigram = (parts) =>
    whole({
      model: unigram,
      added_tokens: ends,
      pre_tokenizer: METASPACE('always', true),
      decoder: METASPACE('always', true),
      ...parts,
    });
  const normalizers = [
    { type: 'NFC' },
    { type: 'NFD' },
    { type: 'NFKC' },
    { type: 'NFKD' },
    { type: 'Lowercase' },
    { type: 'StripAccents' },
    { type: 'Nmt' },
    { type: 'Strip', strip_left: true, strip_right: true },
    { type: 'Prepend', prepend: '▁' },
    { type: 'Prepend', prepend: 'a' },
    { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
    { type: 'Replace', pattern: { String: 'a' }, content: 'b' },
    { type: 'Replace', pattern: { Regex: ' {2,}' }, content: ' ' },
    { type: 'ByteLevel' },
  ];
  for (const step of normalizers) {
    const name = `normalizer ${JSON.stringify(step)}`,
      names = [step.type, 'prepend', 'replaces'];
    yield { name: `byte level, ${name}`, names, tokenizer: byteLevel({ normalizer: step }) };
    yield {
      name: `byte level, ${name} in sequences`,
      names,
      tokenizer: byteLevel({ normalizer: sequence(sequence(step)) }),
    };
    yield { name: `pieces, ${name} first`, names, tokenizer: ofPieces({ normalizer: sequence(step, SPACES) }) };
    yield { name: `pieces, ${name} last`, names, tokenizer: ofPieces({ normalizer: sequence(SPACES, step) }) };
    yield { name: `Unigram, ${name}`, names, tokenizer: ofUnigram({ normalizer: step }) };
  }
  const behaviors = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'];
  const preTokenizers = [
    { type: 'BertPreTokenizer' },
    { type: 'Whitespace' },
    { type: 'WhitespaceSplit' },
    { type: 'UnicodeScripts' },
    { type: 'CharDelimiterSplit', delimiter: '-' },
    { type: 'Digits', individual_digits: true },
    { type: 'Digits', individual_digits: false },
    METASPACE('always', true),
    METASPACE('first', true),
    METASPACE('never', true),
    METASPACE('always', false),
    METASPACE('first', false),
    METASPACE('never', false),
    { type: 'Metaspace', replacement: '▁', add_prefix_space: true },
    { type: 'Metaspace', replacement: '_', prepend_scheme: 'always', split: true },
    ...behaviors.map((behavior) => ({ type: 'Punctuation', behavior })),
    ...behaviors.flatMap((behavior) =>
      [false, true].flatMap((invert) => [
        split(QWEN, behavior, invert),
        split('\\p{N}{1,3}', behavior, invert),
        split(DEEPSEEK[2], behavior, invert),
      ]),
    ),
    ...behaviors.map((behavior) => ({ type: 'Split', pattern: { String: ' ' }, behavior, invert: false })),
    split('(?<=x)y'),
  ];
  for (const step of preTokenizers) {
    const name = JSON.stringify(step).slice(0, 120),
      names = [step.type, 'behavior', 'expression', 'replacement'];
    yield { name: `${name} before ByteLevel`, names, tokenizer: byteLevel({ pre_tokenizer: bytesAfter(step) }) };
    yield {
      name: `${name} after ByteLevel`,
      names,
      tokenizer: byteLevel({ pre_tokenizer: { type: 'Sequence', pretokenizers: [BYTE_LEVEL, step] } }),
    };
    yield { name: `pieces, ${name}`, names, tokenizer: ofPieces({ pre_tokenizer: step }) };
    yield {
      name: `pieces without normalizer, ${name}`,
      names: [...names, 'pre_tokenizer'],
      tokenizer: ofPieces({ normalizer: null, pre_tokenizer: step }),
    };
    yield {
      name: `Unigram, ${name}`,
      names: [...names, 'pre_tokenizer'],
      tokenizer: ofUnigram({ pre_tokenizer: step }),
    };
  }
  yield {
    name: 'Falcon',
    names: [],
    tokenizer: byteLevel({
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          { type: 'Punctuation', behavior: 'Contiguous' },
          { ...BYTE_LEVEL, use_regex: true },
          { type: 'Digits', individual_digits: false },
          split('[0-9][0-9][0-9]'),
        ],
      },
    }),
  };
  for (const [flag, value] of [
    ['add_prefix_space', true],
    ['use_regex', false],
    ['trim_offsets', false],
  ])
    yield {
      name: `ByteLevel with ${flag} ${value}`,
      names: [flag],
      tokenizer: byteLevel({ pre_tokenizer: { ...BYTE_LEVEL, use_regex: true, [flag]: value } }),
    };
  yield {
    name: 'ByteLevel twice',
    names: ['ByteLevel'],
    tokenizer: byteLevel({ pre_tokenizer: { type: 'Sequence', pretokenizers: [BYTE_LEVEL, BYTE_LEVEL] } }),
  };
  yield {
    name: 'pieces without a step for spaces',
    names: ['pre_tokenizer'],
    tokenizer: ofPieces({ normalizer: null }),
  };

  const decoders = [
    { type: 'BPEDecoder', suffix: '</w>' },
    { type: 'WordPiece', prefix: '##', cleanup: true },
    { type: 'CTC', pad_token: '<pad>', word_delimiter_token: '|', cleanup: true },
    { type: 'Fuse' },
    { type: 'Strip', content: ' ', start: 1, stop: 0 },
    { type: 'Strip', content: ' ', start: 2, stop: 0 },
    { type: 'Strip', content: 'a', start: 1, stop: 0 },
    { type: 'Replace', pattern: { String: 'a' }, content: 'b' },
  ];
  for (const step of decoders) {
    const names = [step.type, 'replaces'];
    yield {
      name: `byte level, decoder ${JSON.stringify(step)}`,
      names,
      tokenizer: byteLevel({ decoder: { type: 'Sequence', decoders: [BYTE_LEVEL, step] } }),
      decodes: true,
    };
    yield {
      name: `pieces, decoder ${JSON.stringify(step)}`,
      names,
      tokenizer: ofPieces({ decoder: { type: 'Sequence', decoders: [...PIECE_DECODER.decoders, step] } }),
      decodes: true,
    };
  }
  const s = ['<s>', pieces.vocab['<s>']],
    e = ['</s>', pieces.vocab['</s>']];
  const template = (single) => ({
    type: 'TemplateProcessing',
    single,
    pair: [...single, { Sequence: { id: 'B', type_id: 0 } }],
    special_tokens: {
      '<s>': { id: '<s>', ids: [s[1]], tokens: ['<s>'] },
      '</s>': { id: '</s>', ids: [e[1]], tokens: ['</s>'] },
    },
  });
  const special = (id) => ({ SpecialToken: { id, type_id: 0 } }),
    text = { Sequence: { id: 'A', type_id: 0 } };
  const processors = [
    { type: 'BertProcessing', sep: e, cls: s },
    { type: 'RobertaProcessing', sep: e, cls: s, trim_offsets: true, add_prefix_space: false },
    { type: 'ByteLevel', add_prefix_space: true, trim_offsets: false, use_regex: true },
    template([special('<s>'), text]),
    template([text, special('</s>')]),
    template([special('<s>'), text, special('</s>')]),
    template([special('<s>'), special('<s>'), text]),
  ];
  for (const step of [...processors, ...processors.map((one) => ({ type: 'Sequence', processors: [one] }))])
    yield {
      name: `post-processor ${JSON.stringify(step).slice(0, 100)}`,
      names: ['BertProcessing', 'RobertaProcessing', 'single'],
      tokenizer: ofPieces({ post_processor: step }),
      addsSpecial: true,
    };

  for (const [field, value] of [
    ['dropout', 0.5],
    ['continuing_subword_prefix', '##'],
    ['end_of_word_suffix', '</w>'],
    ['ignore_merges', true],
    ['fuse_unk', true],
    ['unk_token', 'a'],
    ['byte_fallback', true],
  ])
    yield {
      name: `byte level, model.${field}`,
      names: [field],
      tokenizer: byteLevel({ model: { ...bytes, [field]: value } }),
      hasNoReference: ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix'].includes(field),
    };
  for (const [field, value] of [
    ['dropout', 0.5],
    ['continuing_subword_prefix', '##'],
    ['end_of_word_suffix', '</w>'],
    ['ignore_merges', true],
    ['fuse_unk', false],
    ['unk_token', null],
    ['byte_fallback', false],
  ]) {
    yield {
      name: `pieces, model.${field}`,
      names: [field],
      tokenizer: ofPieces({ model: { ...pieces, [field]: value } }),
      hasNoReference: ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix'].includes(field),
    };
    yield {
      name: `pieces without bytes, model.${field}`,
      names: [field],
      tokenizer: ofPieces({ model: { ...unknown, [field]: value } }),
      hasNoReference: ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix'].includes(field),
    };
  }
  yield {
    name: 'WordLevel',
    names: ['WordLevel'],
    tokenizer: whole({
      model: { type: 'WordLevel', vocab: { a: 0, '<unk>': 1 }, unk_token: '<unk>' },
      pre_tokenizer: { type: 'Whitespace' },
    }),
  };
  yield {
    name: 'WordPiece',
    names: ['WordPiece'],
    tokenizer: whole({
      model: {
        type: 'WordPiece',
        vocab: { a: 0, '<unk>': 1 },
        unk_token: '<unk>',
        continuing_subword_prefix: '##',
        max_input_chars_per_word: 100,
      },
      pre_tokenizer: { type: 'Whitespace' },
    }),
  };

  const flags = [
    {},
    { special: true },
    { normalized: true },
    { lstrip: true },
    { rstrip: true },
    { lstrip: true, rstrip: true, special: true },
    { single_word: true },
  ];
  for (const flag of flags) {
    const list = (first) =>
      ['<tool>', 'ñandú', 'über', 'a b', 'abq', 'abqd', 'bqdefgh', 'e\u0301x'].map((content, at) =>
        added(content, first + at, flag),
      );
    const name = `added tokens with ${Object.keys(flag).join(' and ') || 'no flag'}`,
      names = Object.keys(flag);
    yield { name: `byte level, ${name}`, names, tokenizer: byteLevel({ added_tokens: list(end) }) };
    yield {
      name: `NFC, ${name}`,
      names,
      tokenizer: byteLevel({ normalizer: { type: 'NFC' }, added_tokens: list(end) }),
    };
    yield { name: `pieces, ${name}`, names, tokenizer: ofPieces({ added_tokens: [...ends, ...list(piecesEnd)] }) };
    yield {
      name: `Prepend, ${name}`,
      names,
      tokenizer: ofPieces({
        normalizer: sequence({ type: 'Prepend', prepend: '▁' }, SPACES),
        added_tokens: [...ends, ...list(piecesEnd)],
      }),
    };
    yield {
      name: `Metaspace, ${name}`,
      names,
      tokenizer: ofPieces({
        normalizer: null,
        pre_tokenizer: METASPACE('first', false),
        added_tokens: [...ends, ...list(piecesEnd)],
      }),
    };
    // In this configuration, ordinary text never produces a special token, even if it spells one.
    if (!flag.special)
      yield {
        name: `runs of ▁, ${name}`,
        names,
        tokenizer: ofPieces({
          added_tokens: [...ends, ...['▁▁', '▁▁▁▁'].map((run) => added(run, pieces.vocab[run], flag))],
        }),
      };
  }
}

const WORDS = [
  '<tool>',
  'ñandú',
  'über',
  'U\u0308ber u\u0308ber',
  'a b',
  'abq',
  'abqdefgh',
  'abqd',
  ' abq  abqd ',
  'e\u0301x',
  'éx',
  '▁▁',
  '▁▁▁▁▁▁',
  '  a',
  '<s>',
  '</s>',
  '  <s>  a </s> ',
  'x y',
  '\ud55c\u1112\u1161\u11ab',
];

/** Returns the library's ids for each text. */
async function idsOf(library, tokenizer, list, addSpecialTokens) {
  const loaded = library.Tokenizer.fromString(JSON.stringify(tokenizer));
  const ids = (await loaded.encodeBatch(list, { addSpecialTokens })).map((encoding) => encoding.getIds());
  return { ids, decoded: await loaded.decodeBatch(ids, false) };
}

const equal = (a, b) => a.length === b.length && a.every((id, at) => id === b[at]);
const show = (text) =>
  JSON.stringify(text)
    .replace(/[^ -~]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`)
    .slice(0, 120);

export const stepTexts = () => [...texts(300, WORDS, 3), ...WORDS, ...WORDS.map((word) => `x ${word} y`)];

/**
 * Compares the selected components. Returns the number of components that are neither applied as the library applies
 * them nor refused with an error that names them.
 */
export async function compareSteps(library, addon, folder, isWanted = () => true) {
  const list = stepTexts();
  const found = { applied: 0, refused: 0, wrong: 0 };
  const all = [...families().map((one) => ({ ...one, names: [] })), ...steps()].filter(({ name }) => isWanted(name));
  for (const { name, tokenizer, names, addsSpecial = false, decodes = false, hasNoReference = false } of all) {
    let reference;
    try {
      reference = hasNoReference ? null : await idsOf(library, tokenizer, list, addsSpecial);
    } catch {
      reference = null; // the library refuses it too
    }
    let own;
    try {
      own = addon.loadTokenizer(writeFolder(folder, tokenizer, rowsOf(tokenizer)));
    } catch (error) {
      const names_it = names.length > 0 && names.some((part) => error.message.includes(part));
      found[names_it ? 'refused' : 'wrong']++;
      if (!names_it) console.log(`  ${name}: refused with "${error.message}"`);
      continue;
    }
    if (reference === null) {
      found.wrong++;
      console.log(
        `  ${name}: accepted, but the library ${hasNoReference ? 'fails or encodes at random' : 'refuses it'}`,
      );
      continue;
    }
    const options = { addSpecial: addsSpecial, parseSpecial: true, guard: 0 };
    const at = list.findIndex(
      (text, i) =>
        !equal(Array.from(own.tokenize(text, options)), reference.ids[i]) ||
        (decodes && own.detokenize(Int32Array.from(reference.ids[i])) !== reference.decoded[i]),
    );
    found[at === -1 ? 'applied' : 'wrong']++;
    if (at !== -1)
      console.log(
        `  ${name}: ${show(list[at])}: ${Array.from(own.tokenize(list[at], options)).join(' ').slice(0, 80)}; reference: ${reference.ids[at].join(' ').slice(0, 80)}${decodes ? `; decodes to ${show(own.detokenize(Int32Array.from(reference.ids[at])))}, ${show(reference.decoded[at])}` : ''}`,
      );
  }
  console.log(
    `${all.length} steps: ${found.applied} applied like the library, ${found.refused} refused with an error that names them, ${found.wrong} wrong`,
  );
  return found.wrong;
}

/** Decomposed text, runs of "▁", a space before characters added in Unicode 17.0, and special tokens. */
const TELLING = [
  'u\u0308ber U\u0308ber \u1112\u1161\u11ab',
  '\u0995\u09c7\u09be \u0c95\u0cca\u0cd5 \u1025\u102e \u0b95\u0bc6\u0bbe',
  'a \u{1faea} b \u{1f6d8} \u0378c',
  '▁▁▁ b  ▁a▁▁▁▁▁▁▁ a',
  '<think>nai\u0308ve naïve<|im_end|>  <s> a</s>',
  '\ufb01 ½ ㈱ \u212b x²\r\n \r\n\n 12345',
];

/**
 * Returns the lists stored in the test suite: for each model family, `count` texts and the library's ids. Each model
 * occurs once.
 */
export async function savedLists(library, count) {
  const models = [];
  const lists = [];
  for (const [
    at,
    {
      name,
      tokenizer: { model, ...steps },
    },
  ] of families().entries()) {
    const known = models.findIndex((one) => JSON.stringify(one) === JSON.stringify(model));
    const random = texts(140, ['<|im_start|>', '<think>', '▁▁▁'], 11 + at)
      .slice(60)
      .filter((text) => text.length > 1 && text.length < 100);
    const chosen = [...TELLING, ...random].slice(0, count);
    const { ids } = await idsOf(library, { ...steps, model }, chosen, false);
    lists.push({
      name,
      model: known === -1 ? models.push(model) - 1 : known,
      steps,
      cases: chosen.map((text, i) => [text, ids[i]]),
    });
  }
  return { models, lists };
}

/** Formats the lists as JSON, one line per model and per list. */
export function linesOf({ models, lists }) {
  const lines = (list) => list.map((one) => JSON.stringify(one)).join(',\n');
  return `{"models": [\n${lines(models)}\n],\n"lists": [\n${lines(lists)}\n]}\n`;
}
