// monolith debug: prints values for comparison with other engines, as JSON on stdout.

import type { LoadOptions } from '../engine/addon-types.js';
import { loadAddon } from '../engine/load-addon.js';
import { commandConfig } from './command-config.js';
import type { Config } from '../config/settings.js';
import { loadOptions } from '../server/engine-settings.js';
import { debugTemplate } from './debug-template.js';
import { debugVision } from './debug-vision.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp, ofAddon } from './output.js';

const HELP = `
Usage: monolith debug tokens --model FILE [--no-special] [--parse-special] < text
       monolith debug logits --model FILE --ids '[1,2,3]' [--positions '[0,2]'] [--continue N] [--exact]
       monolith debug vision --model FILE --vision FILE --prompt 'See <__media__>' --image FILE ... [--continue N] [--exact]
       monolith debug template --template FILE < contexts

Prints tokens, logits, image embeddings and prompts, for comparison with other engines.

tokens: the token IDs of the text on stdin. --no-special omits the tokens that the file adds (BOS, EOS);
        --parse-special converts the spelling of special tokens in the text to these tokens.
logits: all logits at each position (default: the last one). --continue adds N tokens of greedy decoding; --exact uses
        fp32 activations and an fp32 KV cache.
vision: the token sequence of the prompt with one image per <__media__>, the hash of each image's pixels and its
        embeddings. --continue adds the logits after the prompt and N tokens of greedy decoding.
template: renders a chat template as Jinja2 does with the settings of transformers. Reads one context per line on stdin,
        a JSON object with the template's variables ("now" sets the time that strftime_now returns), and prints one line
        each: {"text": ...} or {"error": ...}.

Engine settings such as --isa and --threads apply.

Examples:
  echo Hello | monolith debug tokens --model path/to/model.gguf
  monolith debug logits --model path/to/model.gguf --ids '[1,2,3]' --continue 24
`;

export const FLAGS: OwnFlags = {
  '--model': 'value',
  '--ids': 'value',
  '--positions': 'value',
  '--continue': 'value',
  '--vision': 'value',
  '--prompt': 'value',
  '--image': 'values',
  '--exact': 'switch',
  '--no-special': 'switch',
  '--parse-special': 'switch',
  '--template': 'value',
};

const MAX_IDS = 1_000_000;

export async function debug(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, lists, words } = commandConfig(argv, FLAGS);
  const [what, ...others] = words;
  noWords(others);
  const file = values.get('--model');
  if (what !== 'tokens' && what !== 'logits' && what !== 'vision' && what !== 'template')
    throw new UsageError('debug: expected tokens, logits, vision or template');
  if (what === 'template') {
    const template = values.get('--template');
    if (template === undefined) throw new UsageError('debug: --template FILE is required');
    return debugTemplate(template);
  }
  if (file === undefined) throw new UsageError('debug: --model FILE is required');
  if (what === 'vision') return debugVision(file, values, lists.get('--image') ?? [], config);
  return what === 'tokens' ? tokens(file, values) : logits(file, values, config);
}

async function tokens(file: string, values: ReadonlyMap<string, string>): Promise<number> {
  const tokenizer = await ofAddon(() => loadAddon().loadTokenizer(file));
  const pieces: Buffer[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Buffer);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces));
  } catch {
    throw new UsageError('debug: the text on stdin is not UTF-8');
  }
  const ids = tokenizer.tokenize(text, {
    addSpecial: !values.has('--no-special'),
    parseSpecial: values.has('--parse-special'),
    guard: 0,
  });
  process.stdout.write(`${JSON.stringify(Array.from(ids))}\n`);
  return 0;
}

async function logits(file: string, values: ReadonlyMap<string, string>, config: Config): Promise<number> {
  const ids = integers(values, '--ids', MAX_IDS);
  if (ids === null || ids.length === 0) throw new UsageError("debug: --ids '[1,2,3]' is required");
  const positions = integers(values, '--positions', MAX_IDS) ?? [ids.length - 1];
  const count = values.get('--continue') ?? '0';
  if (!/^\d{1,6}$/.test(count)) throw new UsageError(`debug: --continue takes a number of tokens, not "${count}"`);
  const options: LoadOptions = {
    ...loadOptions(config),
    ...(values.has('--exact') ? { arithmetic: 'exact', kvType: 'f32' } : {}),
  };
  const result = await ofAddon(() =>
    loadAddon().debugLogits(file, options, Int32Array.from(ids), Int32Array.from(positions), Number(count)),
  );
  const { continuation } = result;
  process.stdout.write(
    `${JSON.stringify({
      model: file,
      arithmetic: options.arithmetic,
      tokens: result.tokens,
      positions: result.positions.map(({ position, logits: row }) => ({ position, logits: Array.from(row) })),
      continuation:
        continuation === null
          ? null
          : {
              tokens: continuation.tokens,
              logits: continuation.logits,
              last: { position: continuation.last.position, logits: Array.from(continuation.last.logits) },
            },
    })}\n`,
  );
  return 0;
}

function integers(values: ReadonlyMap<string, string>, flag: string, most: number): number[] | null {
  const text = values.get(flag);
  if (text === undefined) return null;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = null;
  }
  const valid =
    Array.isArray(parsed) &&
    parsed.length <= most &&
    parsed.every((one) => Number.isInteger(one) && one >= 0 && one < 2 ** 31);
  if (!valid) throw new UsageError(`debug: ${flag} takes a JSON array of whole numbers, such as '[1,2,3]'`);
  return parsed as number[];
}
