// A test model that outputs exactly what a script prescribes, token by token. It is a real GGUF file that the real
// engine loads and runs; its weights are calculated instead of trained.
//
//   const server = await startScripted();                              // the standard scripts (scripts.ts)
//   … messages: [{ role: 'user', content: 'W: weather in Paris?' }]   // the letter selects script W
//   … { role: 'tool', content: 'T: 14 C' }                            // the last user or tool message decides
//   said('W')                                                          // the expected reasoning, content and calls
//
// A message without "X:" at its start selects script A, a tool result without it script T. The file is served under
// all three model names. A prompt has one token per byte and a few control tokens.
//
// The letters of the standard scripts (scripts.ts):
//   A  plain text, "Paris is the capital of France."       M  call that needs its schema to stay well-formed
//   B  tool call marker spelled out as text                O  call without arguments
//   C  text, then a call                                   P  two calls
//   D  call with nested arguments, split characters        Q  call whose arguments never end
//   E  multi-byte characters split across tokens           R  reasoning without end
//   F  JSON in a code fence                                S  text with a possible stop string, "STOP"
//   H  reasoning, then text                                T  text after a tool result
//   I  JSON that violates the test schema                  U  call to a tool that was not offered
//   J  JSON that matches the test schema                   W  call split at unusual positions
//   K  reasoning, text and a call                          Z  empty output
//   L  story without end
//
// Reasoning: a script that starts with <think> reasons if the request enables reasoning. The files' default effort is
// `medium`, so chat requests reason unless they set `none`. Otherwise the model outputs only the part after the
// reasoning. With `startScripted({ opensThinking: true })` the prompt itself opens the section, as some models'
// templates do.
//
// Tools: the engine's mask restricts a call's head to the offered tools. If the script's tool is not among them, the
// model calls an offered tool with the script's arguments. If a call is forced and the script has none, its arguments
// are {"location": "Paris"}. If calls are not allowed, the model outputs "I may call no tool.". After the engine closes
// the reasoning, the script's text follows. A continued assistant message continues with " and so on.". Greedy and
// sampled runs give the same output (up to temperature 1).
//
// Custom scripts: `writeScriptModel(path, { scripts: { A: ['one ', 'two'], B: [...] } })`. Each piece is one token.
// Texts should be unique. A text that occurs twice is joined with the piece after it; otherwise it needs a unique text
// on both sides (whitespace after </think> too). A script ends with <|im_end|> unless its last piece is a `repeat`.
//
// Implementation: one layer with a zero feed-forward part. Three attention heads look back exactly 1, 2 and 4 tokens:
// their queries and keys are constant, and scores peak at that distance because of the RoPE frequencies. The fourth
// head looks at the latest anchor, a token that identifies the position in the scripts. The heads copy these tokens,
// and the output matrix turns the copies and the last token into logits: the votes of script-plan.ts.

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
  /** Scripts by letter. A is the default; T responds to tool results. */
  scripts?: Readonly<Record<string, Script>>;
  /** Maximum length of prompt plus output, in tokens; default 16,384. */
  context?: number;
  /** Whether the template opens the reasoning section in the prompt, so that the model does not have to open it. */
  opensThinking?: boolean;
  /** Jinja source at the start of the template. */
  templateHead?: string;
  /** Jinja source that renders the calls of the message `m`. Default: Qwen's format. */
  callTemplate?: string;
  /**
   * Whether the template renders an earlier assistant turn with the token that selected the turn's script. A prompt and
   * its response are then a prefix of the next prompt.
   */
  exactHistory?: boolean;
}

/** Writes the model file, about 10 MB, in a fraction of a second. */
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
  /** Names under which the file is served. */
  models?: readonly string[];
}

/**
 * Starts a server whose models follow the scripts. Stop it like any other server; the model file is removed when this
 * process exits.
 */
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
const MAGNITUDE = 16; // of values in the residual stream: large enough that the norm's epsilon has no effect
const SHARPNESS = 8; // scale of queries and keys

/** How far back each attention head looks, in head order. */
const LOOKS = [1, 2, 4, 'anchor'] as const;
// Two pairs of dimensions in a head find the latest anchor token. LIFTING rotates so slowly that it is practically
// constant, and raises anchors above all other tokens. FALLING decreases with distance over the first few hundred
// tokens.
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

/** An attention head copies a token's class. Tokens that no vote refers to have class 0. */
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
  // The residual stream holds the last token, the constant 1, and the value that each head has copied.
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
  vector('blk.0.attn_norm.weight', width, () => Math.sqrt(2 / width)); // normalizes the token's two values to 1
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
  // The input has two nonzero values plus one per head, all equal. With these weights, the norm maps each nonzero value
  // to 1.
  vector('output_norm.weight', width, () => Math.sqrt((2 + heads) / width));
  matrix('output.weight', width, vocabulary, (put) => {
    for (let byte = 0; byte < 256; byte++) put(byte, one, -BYTE_HANDICAP);
    for (const { where, token, next, weight } of plan.votes) {
      put(next, where === 0 ? token : copied + LOOKS.indexOf(where) * head + classes.get(token)!, weight);
    }
  });
  // The engine divides the default frequencies (base^(-2i/n)) by these values.
  vector('rope_freqs.weight', head / 2, (pair) => ROPE_BASE ** ((-2 * pair) / head) / frequency(pair));
  return tensors;
}

/**
 * Returns one of the two halves of a dimension pair in a head's query. Keys point along the first half, so scores are
 * sums of cos(frequency * distance + turn).
 */
function query(look: (typeof LOOKS)[number], pair: number, second: boolean, head: number): number {
  const along = (turn: number): number => (second ? Math.sin(turn) : Math.cos(turn));
  if (look !== 'anchor') return pair > FALLING ? SHARPNESS * along(-frequency(pair) * look) : 0;
  if (pair > FALLING) return 0;
  const scale = Math.sqrt(head) / ANCHOR_KEY;
  return pair === LIFTING ? LIFT * scale * along(0) : FALL * scale * along(Math.PI / 2);
}

const ROPE_BASE = 10_000;

/** The frequencies have no common period, so the sum of cos(frequency * distance) is large only at distance 0. */
function frequency(pair: number): number {
  if (pair === LIFTING) return 1e-9;
  if (pair === FALLING) return FALLING_FREQUENCY;
  return Math.PI * (0.05 + 0.9 * ((pair * 0.6180339887498949) % 1));
}

/** Returns the binary16 bits of an integer; exact up to 2,048. */
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
      {
        type: 'string',
        value: (options.templateHead ?? '') + templateOf(plan, Object.keys(scripts), options),
      },
    ],
  ];
}

const QWEN_CALLS = `{% for c in m.tool_calls or [] %}
{%- set f = c.function if c.function is defined else c %}<tool_call>
{"name": "{{ f.name }}", "arguments": {{ f.arguments if f.arguments is string else f.arguments | tojson }}}
</tool_call>{% endfor %}`;

/** ChatML, by default with Qwen's tool format. The template ends the prompt with the token that selects the script. */
function templateOf(
  { thinking }: Plan,
  letters: readonly string[],
  {
    opensThinking = false,
    exactHistory = false,
    callTemplate = QWEN_CALLS,
  }: Pick<ScriptModelOptions, 'opensThinking' | 'exactHistory' | 'callTemplate'>,
): string {
  const selected = `{% if enable_thinking %}{{ '<|script:' + chosen.letter + '|>' }}{% else %}{{ '<|script:' + chosen.letter + ':plain|>' }}{% endif %}`;
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
${exactHistory ? `{% if m.role == 'assistant' %}${selected}{% endif %}` : ''}{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}${callTemplate}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}{{ '<|script:' + chosen.letter + '|>' }}${opensThinking ? `{% if chosen.letter in '${thinking.join('')}' %}<think>\n{% endif %}` : ''}{% else %}{{ '<|script:' + chosen.letter + ':plain|>' }}{% endif %}
{%- endif %}`;
}
