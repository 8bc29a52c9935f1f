// Measures the speedup of speculative decoding by comparing an engine with it and an engine without it. There are three
// kinds of text: text that repeats the prompt, the model's own text, and noise, where no draft token is ever accepted.
// Both engines decode the same tokens.
//
//   npm run bench -- speculation --model FILE --json OUT
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import type { SubmitOptions } from '../src/engine/addon-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { VERSION } from '../src/shared/version.js';
import { benchLoadOptions, finish, submission } from './lib/engine-requests.js';
import { spreadOf, type Spread } from './lib/statistics.js';

const USAGE = `npm run bench -- speculation --model FILE [options]

  --model FILE   GGUF file to decode with
  --draft FILE   smaller model with the same vocabulary to use as the draft model
  --draft-quantize q8_0|q4_0   requantize the draft model, e.g. to use the model itself in fewer bits
  --mtp off      disable the model's own MTP layers
  --streams N    concurrently decoding sequences (default 1)
  --tokens N     tokens decoded per sequence (default 200)
  --repeats N    measured passes over both engines (default 5), after one warm-up pass
  --json OUT     write all results to OUT
`;

const PHRASE =
  'The quick brown fox jumps over the lazy dog, while seven wizards quietly mix potions in the old tower by the sea. ';

interface Text {
  about: string;
  prompt: string;
  temperature: number;
  words: readonly number[];
}

// A model with random weights produces no meaningful text. To get repetitive text, limit its output to a few words.
const TEXTS: readonly Text[] = [
  { about: 'repeats its prompt, greedy', prompt: `Say it again.\n${PHRASE.repeat(5)}`, temperature: 0, words: [] },
  { about: 'repeats its prompt, sampled', prompt: `Say it again.\n${PHRASE.repeat(5)}`, temperature: 0.7, words: [] },
  { about: 'its own, sampled', prompt: 'Tell me a story about a town on the coast.', temperature: 1, words: [] },
  { about: 'three words, sampled', prompt: 'Tell me', temperature: 1, words: [900, 1000, 1100] },
  { about: 'one word', prompt: 'Tell me', temperature: 0, words: [900] },
  { about: 'noise', prompt: 'Tell me a story about a town on the coast.', temperature: 4, words: [] },
];

interface Figures {
  text: string;
  off: Spread;
  auto: Spread;
  ratio: Spread;
  guessed: number;
  right: number;
}

export async function speculationBenchCommand(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      model: { type: 'string' },
      draft: { type: 'string' },
      'draft-quantize': { type: 'string' },
      json: { type: 'string' },
      mtp: { type: 'string', default: 'auto' },
      help: { type: 'boolean' },
      streams: { type: 'string', default: '1' },
      tokens: { type: 'string', default: '200' },
      repeats: { type: 'string', default: '5' },
    },
  });
  if (values.help === true || values.model === undefined) {
    process.stdout.write(USAGE);
    return;
  }
  const path = values.model;
  const [streams = 1, tokens = 1, repeats = 1] = [values.streams, values.tokens, values.repeats].map((text) => {
    if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`${text} is not a whole number of at least 1`);
    return Number(text);
  });
  const draftQuantize = values['draft-quantize'];
  if (draftQuantize !== undefined && draftQuantize !== 'q8_0' && draftQuantize !== 'q4_0')
    throw new Error(`--draft-quantize must be q8_0 or q4_0 (got ${draftQuantize})`);
  const { mtp } = values;
  if (mtp !== 'auto' && mtp !== 'off' && mtp !== 'always')
    throw new Error(`--mtp must be auto, always or off (got ${mtp})`);
  const draft =
    values.draft === undefined
      ? {}
      : { draftPath: values.draft, ...(draftQuantize === undefined ? {} : { draftQuantize }) };
  const open = async (speculation: 'off' | 'auto'): Promise<Engine> =>
    new Engine(
      await loadAddon().load(
        `${path} ${speculation}`,
        path,
        { ...benchLoadOptions, speculation, mtp, ...draft },
        () => undefined,
      ),
    );
  const off = await open('off'),
    auto = await open('auto');
  const figures: Figures[] = [];
  try {
    for (const text of TEXTS) {
      const before = auto.stats();
      const rates: Record<'off' | 'auto', number[]> = { off: [], auto: [] };
      for (let repeat = -1; repeat < repeats; repeat++) {
        // The order alternates, so that changes in the machine's speed affect both engines.
        for (const way of repeat % 2 === 0 ? (['off', 'auto'] as const) : (['auto', 'off'] as const)) {
          const rate = await decode(way === 'off' ? off : auto, text, streams, tokens, repeat + 2);
          if (repeat >= 0) rates[way].push(rate);
        }
      }
      const after = auto.stats();
      const of = {
        text: text.about,
        off: spreadOf(rates.off),
        auto: spreadOf(rates.auto),
        ratio: spreadOf(rates.auto.map((rate, index) => rate / (rates.off[index] ?? NaN))),
        guessed: after.draftTokens - before.draftTokens,
        right: after.acceptedTokens - before.acceptedTokens,
      };
      figures.push(of);
      process.stdout.write(
        `${of.text.padEnd(28)} ${of.off.median.toFixed(0).padStart(6)} tokens/s without, ${of.auto.median.toFixed(0).padStart(6)} with: ` +
          `${of.ratio.median.toFixed(2)} (${of.ratio.min.toFixed(2)} to ${of.ratio.max.toFixed(2)}); ${of.right} of ${of.guessed} draft tokens accepted\n`,
      );
    }
  } finally {
    await off.close();
    await auto.close();
  }
  if (values.json === undefined) return;
  const report = {
    version: VERSION,
    node: process.version,
    cpu: cpus()[0]?.model ?? '',
    cores: cpus().length,
    date: new Date().toISOString(),
    model: path.split('/').at(-1),
    streams,
    tokens,
    figures,
  };
  writeFileSync(values.json, `${JSON.stringify(report, null, 1)}\n`);
}

/** Returns the total tokens per second across all streams, measured until the slowest stream has finished. */
async function decode(
  engine: Engine,
  { prompt, temperature, words }: Text,
  streams: number,
  tokens: number,
  round: number,
): Promise<number> {
  const ids = await engine.tokenize(prompt, { addSpecial: true, parseSpecial: false, guard: 0 });
  const ends = await Promise.all(
    Array.from({ length: streams }, (_, index) => {
      const options: SubmitOptions = {
        ...submission(engine, 1, tokens),
        prompt: ids.slice(),
        temperature,
        seed: BigInt(1_000 * round + index),
        logitBias: words.map((token) => ({ token, bias: 50 })),
      };
      return finish(engine, options);
    }),
  );
  return (streams * (tokens - 1)) / (Math.max(...ends.map(({ decodeMs }) => decodeMs)) / 1000);
}
