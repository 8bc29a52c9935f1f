// A model for tests that says exactly what a script tells it to, token by token: a real GGUF file that the
// real engine loads and runs, with weights that were calculated instead of learned.
//
//   const server = await startScripted();                              // the standard scripts (scripts.ts)
//   … messages: [{ role: 'user', content: 'W: weather in Paris?' }]   // the letter chooses script W
//   … { role: 'tool', content: 'T: 14 C' }                            // and goes by the last user or tool message
//   said('W')                                                          // what its answer is: reasoning, content, calls
//
// A message without "X:" in front gets script A, a tool's answer without it script T. All three model names
// are served by the file. Prompts are one token per byte and a few control tokens.
//
// Reasoning: scripts that begin with <think> reason if the request asks for it (the files' default effort is
// `medium`, so chat does unless told `none`); otherwise their answer alone is said. With
// `startScripted({ opensThinking: true })` the prompt itself opens the section, as some models' templates do.
//
// Tools: a call's head is written under the engine's mask, so its tool must be among those the request offers;
// with others alone, one of them is called with the script's arguments. A call that is forced upon a script
// without one gets {"location": "Paris"}; where a call is not allowed the model says "I may call no tool.".
// After reasoning that the engine closes the script's answer follows; a continued answer goes on with
// " and so on.". Greedy and sampled runs say the same (up to temperature 1).
//
// A script of your own: `writeScriptModel(path, { scripts: { A: ['one ', 'two'], B: [...] } })`. Each piece is one
// token. Texts should differ from all others; one that does not grows by the piece behind it, or else needs a
// text of its own on either side (white space behind </think> too). Scripts end with <|im_end|> unless their last
// piece is a `repeat`.
//
// How it works: one layer. Its feed-forward part is zero; three of its attention heads look back exactly 1, 2 and
// 4 tokens (constant queries and keys, and RoPE frequencies under which scores peak at that distance), the fourth
// at the latest of the tokens that tell where in which script we are. They copy what stood there, and the output
// matrix turns that and the last token into logits: votes (script-plan.ts).

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ggufHead, type Metadata, type TensorEntry } from '../../bench/lib/gguf-writer.js';
import { startMonolith, type Monolith } from '../e2e/monolith.js';
import { BYTE_HANDICAP, planOf, type Plan, type Script } from './script-plan.js';
import { standardScripts } from './scripts.js';

export { said, standardScripts, type Said } from './scripts.js';
export type { Piece, Repeat, Script } from './script-plan.js';

export interface ScriptModelOptions {
  /** By letter. A is the default, T answers tools. */
  scripts?: Readonly<Record<string, Script>>;
  /** Prompt plus output, in tokens; 16,384 if absent. */
  context?: number;
  /** The template opens the reasoning in the prompt instead of the model in its answer. */
  opensThinking?: boolean;
}

/** Writes the file: some 10 MB, in a fraction of a second. */
export function writeScriptModel(path: string, options: ScriptModelOptions = {}): void {
  const scripts = options.scripts ?? standardScripts;
  const plan = planOf(scripts);
  const tensors = tensorsOf(plan);
  const layout = ggufHead(metadataOf(plan, scripts, options), tensors);
  const file = Buffer.alloc(layout.fileBytes);
  layout.head.copy(file);
  tensors.forEach(({ data }, at) => Buffer.from(data.buffer).copy(file, layout.positions[at]));
  writeFileSync(path, file);
}

export interface ScriptedSettings extends ScriptModelOptions {
  args?: string[];
  env?: Record<string, string>;
  /** Names that are served by the file. */
  models?: readonly string[];
}

/** A server whose models say the scripts. Stop it as any other; the file goes with it. */
export async function startScripted(settings: ScriptedSettings = {}): Promise<Monolith> {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-script-'));
  const path = join(folder, 'script.gguf');
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  writeScriptModel(path, settings);
  const names = settings.models ?? ['hal-1.0', 'clarke-1.0', 'tycho-1.0'];
  return startMonolith({
    args: [...names.flatMap((name) => ['--model', `${name}=${path}`]), ...(settings.args ?? [])],
    ...(settings.env === undefined ? {} : { env: settings.env }),
  });
}

interface Tensor extends TensorEntry {
  readonly data: Uint16Array | Float32Array;
}

const F32 = 0,
  F16 = 1; // GGML's type numbers
const MAGNITUDE = 16; // of what stands in the residual stream: far above what the norm's epsilon changes
const SHARPNESS = 8; // of queries and keys

/** What the attention heads look at, in their order. */
const LOOKS = [1, 2, 4, 'anchor'] as const;
// Two pairs of a head's dimensions serve the search for the latest anchor: one turns so slowly that it does not
// turn, and lifts anchors above all else; the other falls with the distance, for the first few hundred tokens.
const LIFTING = 0,
  FALLING = 1;
const ANCHOR_KEY = 60,
  LIFT = 4_000,
  FALL = 3_500,
  FALLING_FREQUENCY = 0.003;

interface Shape {
  vocabulary: number;
  head: number;
  width: number;
  classes: ReadonlyMap<number, number>;
}

/** What a head copies is a token's class: 0 for the many that nobody asks about. */
function shapeOf({ spellings, votes, anchors }: Plan): Shape {
  const classes = new Map<number, number>();
  const asked = [...anchors, ...votes.flatMap(({ where, token }) => (where === 0 ? [] : [token]))];
  for (const token of asked) if (!classes.has(token)) classes.set(token, classes.size + 1);
  const head = Math.ceil((classes.size + 1) / 64) * 64;
  const width = Math.ceil((spellings.length + 1 + LOOKS.length * head) / 32) * 32;
  return { vocabulary: spellings.length, head, width, classes };
}

function tensorsOf(plan: Plan): Tensor[] {
  const { vocabulary, head, width, classes } = shapeOf(plan);
  const heads = LOOKS.length;
  // The residual stream: the last token, a one, and what each head copied.
  const one = vocabulary,
    copied = vocabulary + 1;
  const tensors: Tensor[] = [];
  const matrix = (
    name: string,
    columns: number,
    rows: number,
    set: (put: (row: number, column: number, value: number) => void) => void = () => {},
  ): void => {
    const data = new Uint16Array(columns * rows);
    set((row, column, value) => {
      data[row * columns + column] = half(value);
    });
    tensors.push({ name, dims: [columns, rows], ggmlType: F16, bytes: data.byteLength, data });
  };
  const vector = (name: string, length: number, value: (at: number) => number): void => {
    const data = Float32Array.from({ length }, (_, at) => value(at));
    tensors.push({ name, dims: [length], ggmlType: F32, bytes: data.byteLength, data });
  };

  matrix('token_embd.weight', width, vocabulary, (put) => {
    for (let token = 0; token < vocabulary; token++) {
      put(token, token, MAGNITUDE);
      put(token, one, MAGNITUDE);
    }
  });
  vector('blk.0.attn_norm.weight', width, () => Math.sqrt(2 / width)); // the token's two values become 1
  matrix('blk.0.attn_q.weight', width, heads * head);
  matrix('blk.0.attn_k.weight', width, head, (put) => {
    for (const token of plan.anchors) for (const pair of [LIFTING, FALLING]) put(2 * pair, token, ANCHOR_KEY);
  });
  matrix('blk.0.attn_v.weight', width, head, (put) => {
    for (let token = 0; token < vocabulary; token++) put(classes.get(token) ?? 0, token, 1);
  });
  vector('blk.0.attn_q.bias', heads * head, (at) =>
    query(LOOKS[Math.floor(at / head)]!, (at % head) >> 1, at % 2 === 1, head),
  );
  vector('blk.0.attn_k.bias', head, (at) => (at % 2 === 0 && at >> 1 > FALLING ? SHARPNESS : 0));
  vector('blk.0.attn_v.bias', head, () => 0);
  matrix('blk.0.attn_output.weight', heads * head, width, (put) => {
    for (let at = 0; at < heads * head; at++) put(copied + at, at, MAGNITUDE);
  });
  vector('blk.0.ffn_norm.weight', width, () => 1);
  matrix('blk.0.ffn_gate.weight', width, 32);
  matrix('blk.0.ffn_up.weight', width, 32);
  matrix('blk.0.ffn_down.weight', 32, width);
  // As many equal values as there are heads, and those two: they become 1 again.
  vector('output_norm.weight', width, () => Math.sqrt((2 + heads) / width));
  matrix('output.weight', width, vocabulary, (put) => {
    for (let byte = 0; byte < 256; byte++) put(byte, one, -BYTE_HANDICAP);
    for (const { where, token, next, weight } of plan.votes) {
      put(next, where === 0 ? token : copied + LOOKS.indexOf(where) * head + classes.get(token)!, weight);
    }
  });
  // The reader divides the usual frequencies (base^(-2i/n)) by these.
  vector('rope_freqs.weight', head / 2, (pair) => ROPE_BASE ** ((-2 * pair) / head) / frequency(pair));
  return tensors;
}

/** One half of a pair of a head's query; with keys along the first half, scores are sums of cos(frequency * distance + turn). */
function query(look: (typeof LOOKS)[number], pair: number, second: boolean, head: number): number {
  const along = (turn: number): number => (second ? Math.sin(turn) : Math.cos(turn));
  if (look !== 'anchor') return pair > FALLING ? SHARPNESS * along(-frequency(pair) * look) : 0;
  if (pair > FALLING) return 0;
  const scale = Math.sqrt(head) / ANCHOR_KEY;
  return pair === LIFTING ? LIFT * scale * along(0) : FALL * scale * along(Math.PI / 2);
}

const ROPE_BASE = 10_000;

/** Spread without a common period: the sum of cos(frequency * distance) is large at distance 0 alone. */
function frequency(pair: number): number {
  if (pair === LIFTING) return 1e-9;
  if (pair === FALLING) return FALLING_FREQUENCY;
  return Math.PI * (0.05 + 0.9 * ((pair * 0.6180339887498949) % 1));
}

/** The bits of a whole number as a 16-bit float; exact up to 2,048. */
function half(value: number): number {
  const magnitude = Math.abs(value);
  const exponent = Math.floor(Math.log2(magnitude));
  return (value < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) | ((magnitude / 2 ** exponent - 1) * 1024);
}

function metadataOf(plan: Plan, scripts: Readonly<Record<string, Script>>, options: ScriptModelOptions): Metadata {
  const { vocabulary, head, width } = shapeOf(plan);
  const count = (key: string, value: number) => [`llama.${key}`, { type: 'uint32', value }] as const;
  const token = (key: string, spelling: string) =>
    [`tokenizer.ggml.${key}_token_id`, { type: 'uint32', value: plan.spellings.indexOf(spelling) }] as const;
  return [
    ['general.architecture', { type: 'string', value: 'llama' }],
    ['general.name', { type: 'string', value: 'script' }],
    ['general.file_type', { type: 'uint32', value: 1 }],
    count('context_length', options.context ?? 16_384),
    count('embedding_length', width),
    count('block_count', 1),
    count('feed_forward_length', 32),
    count('attention.head_count', LOOKS.length),
    count('attention.head_count_kv', 1),
    count('attention.key_length', head),
    count('attention.value_length', head),
    count('rope.dimension_count', head),
    count('vocab_size', vocabulary),
    ['llama.attention.layer_norm_rms_epsilon', { type: 'float32', value: 1e-6 }],
    ['llama.rope.freq_base', { type: 'float32', value: ROPE_BASE }],
    ['tokenizer.ggml.model', { type: 'string', value: 'gpt2' }],
    ['tokenizer.ggml.pre', { type: 'string', value: 'qwen2' }],
    ['tokenizer.ggml.tokens', { type: 'strings', value: plan.spellings }],
    ['tokenizer.ggml.token_type', { type: 'int32s', value: plan.types }],
    ['tokenizer.ggml.merges', { type: 'strings', value: [] }],
    token('bos', '<|endoftext|>'),
    token('eos', '<|im_end|>'),
    token('padding', '<|endoftext|>'),
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: false }],
    [
      'tokenizer.chat_template',
      { type: 'string', value: templateOf(plan, Object.keys(scripts), options.opensThinking ?? false) },
    ],
  ];
}

/** ChatML with tools as Qwen writes them; at its end the token that chooses the script. */
function templateOf({ thinking }: Plan, letters: readonly string[], opensThinking: boolean): string {
  const standard = (letter: string): string => (letters.includes(letter) ? letter : letters[0]!);
  return `{%- set chosen = namespace(letter='${standard('A')}') %}
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ (tool.function if tool.function is defined else tool) | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' or m.role == 'tool' %}
{%- set chosen.letter = m.content[:1] if m.content[1:2] == ':' and m.content[:1] in '${letters.join('')}' else '${standard('T')}' if m.role == 'tool' else '${standard('A')}' %}
{%- endif %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}
{%- set f = c.function if c.function is defined else c %}<tool_call>
{"name": "{{ f.name }}", "arguments": {{ f.arguments if f.arguments is string else f.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}{{ '<|script:' + chosen.letter + '|>' }}${opensThinking ? `{% if chosen.letter in '${thinking.join('')}' %}<think>\n{% endif %}` : ''}{% else %}{{ '<|script:' + chosen.letter + ':plain|>' }}{% endif %}
{%- endif %}`;
}
