// Measures the cost of constrained decoding and how much of JSON Schema is supported. As in MaskBench, a case is a
// schema with instances. Each schema is compiled and each instance is matched token by token, on one thread; the
// measure is CPU time (bench/native/grammar_bench.cc). The benchmark also compares how fast an engine decodes many
// streams with and without a grammar.
//
//   npm run bench -- grammar --cases FILE_OR_FOLDER --json OUT
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import type { NativeGrammar } from '../src/engine/addon-grammar-types.js';
import { Engine } from '../src/engine/engine.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { VERSION } from '../src/shared/version.js';
import { benchLoadOptions, finish, submission } from './lib/engine-requests.js';
import { ggufHead } from './lib/gguf-writer.js';
import { compacted, membersOf } from './lib/raw-json.js';
import { spreadOf, type Spread } from './lib/statistics.js';
import { textTokenizer } from './lib/text-vocabulary.js';

const USAGE = `npm run bench -- grammar --cases FILE_OR_FOLDER [options]

  --cases PATH        JSON lines, gzipped or not, or a folder of single JSON files: {"schema", "tests": [{"valid", "data"}]}
  --vocabulary FILE   GGUF file whose vocabulary is used (default: 128,000 tokens made from the texts of this repository)
  --model FILE        also decode with this GGUF file, with and without a grammar
  --streams N         concurrently decoding sequences (default 16)
  --tokens N          tokens decoded per sequence (default 64)
  --repeats N         measured passes over both kinds of decoding (default 7), after one warm-up pass
  --json OUT          write all results to OUT
`;

const ROOT = join(import.meta.dirname, '..', '..');

interface Case {
  name: string;
  line: string;
}

export interface CaseFigures {
  cases: number;
  passing: number;
  percentPassing: number;
  refused: number;
  pastLimits: number;
  masksWrong: number;
  valid: number;
  validRefused: number;
  invalid: number;
  invalidAccepted: number;
  maskMicroseconds: Quantiles;
  compileMicroseconds: Quantiles;
  reasons: { cases: number; kind: string; keyword: string; what: string }[];
  failing: string[];
}

interface Quantiles {
  count: number;
  average: number;
  p50: number;
  p99: number;
  max: number;
}

export interface DecodeFigures {
  streams: number;
  tokens: number;
  free: Spread;
  constrained: Spread;
  ratio: Spread;
}

export async function grammarBenchCommand(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      cases: { type: 'string' },
      vocabulary: { type: 'string' },
      model: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean' },
      streams: { type: 'string', default: '16' },
      tokens: { type: 'string', default: '64' },
      repeats: { type: 'string', default: '7' },
    },
  });
  if (values.help === true || (values.cases === undefined && values.model === undefined)) {
    process.stdout.write(USAGE);
    return;
  }
  const report: Record<string, unknown> = {
    version: VERSION,
    node: process.version,
    cpu: cpus()[0]?.model ?? '',
    cores: cpus().length,
    date: new Date().toISOString(),
  };
  if (values.cases !== undefined) {
    const { vocabulary, figures } = measureCases(readCases(values.cases), values.vocabulary ?? null);
    Object.assign(report, { vocabulary, figures });
    process.stdout.write(tableOf(figures));
  }
  if (values.model !== undefined) {
    const decode = await measureDecode(
      values.model,
      wholeNumber(values.streams),
      wholeNumber(values.tokens),
      wholeNumber(values.repeats),
    );
    report['decode'] = { model: values.model.split('/').at(-1), ...decode };
    process.stdout.write(
      `decode, ${decode.streams} streams: ${decode.free.median.toFixed(0)} tokens/s free, ${decode.constrained.median.toFixed(0)} constrained: ` +
        `${(100 * decode.ratio.median).toFixed(1)} % (${(100 * decode.ratio.min).toFixed(1)} to ${(100 * decode.ratio.max).toFixed(1)})\n`,
    );
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 1)}\n`);
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`${text} is not a whole number of at least 1`);
  return Number(text);
}

function readCases(path: string): Case[] {
  if (!statSync(path).isDirectory()) {
    const bytes = readFileSync(path);
    const text = (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString('utf8');
    const lines = path.replace(/\.gz$/, '').endsWith('.json')
      ? [text]
      : text.split('\n').filter((line) => line.trim() !== '');
    return lines.map((line, index) => toCase(line, `${index + 1}`));
  }
  return readdirSync(path)
    .filter((name) => /\.json(\.gz)?$/.test(name))
    .sort()
    .map((name) => {
      const bytes = readFileSync(join(path, name));
      return toCase((name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8'), name);
    });
}

function toCase(text: string, place: string): Case {
  const members = membersOf(compacted(text));
  const schema = members.get('schema');
  if (schema === undefined) throw new Error(`case ${place} has no "schema"`);
  const tests = [...membersOf(members.get('tests') ?? '[]').values()].flatMap((test) => {
    const { valid, data } = Object.fromEntries(membersOf(test)) as { valid?: string; data?: string };
    return data === undefined ? [] : [valid === 'true' ? 'V' : 'I', data];
  });
  return {
    name: JSON.parse(members.get('name') ?? JSON.stringify(place)) as string,
    line: [schema, ...tests].join('\t'),
  };
}

function measureCases(cases: readonly Case[], given: string | null): { vocabulary: object; figures: CaseFigures } {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-grammar-'));
  try {
    let path = given;
    if (path === null) {
      const { head } = ggufHead(textTokenizer(ROOT), []);
      path = join(folder, 'vocabulary.gguf');
      writeFileSync(path, head);
    }
    const digest = createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 16);
    const { status, stdout, stderr } = spawnSync(join(ROOT, 'build', 'native', 'grammar_bench'), [path], {
      input: `${cases.map(({ line }) => line).join('\n')}\n`,
      encoding: 'utf8',
      maxBuffer: 1 << 30,
    });
    if (status !== 0) throw new Error(`grammar_bench exited with ${status}: ${stderr}`);
    return {
      vocabulary: { from: given?.split('/').at(-1) ?? 'the texts of this repository', sha256: digest },
      figures: figuresOf(cases, stdout.trimEnd().split('\n')),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function figuresOf(cases: readonly Case[], lines: readonly string[]): CaseFigures {
  if (lines.length !== cases.length) throw new Error(`grammar_bench returned ${lines.length} of ${cases.length} cases`);
  const sums = {
    passing: 0,
    refused: 0,
    pastLimits: 0,
    masksWrong: 0,
    valid: 0,
    validRefused: 0,
    invalid: 0,
    invalidAccepted: 0,
  };
  const masks: number[] = [],
    compiles: number[] = [];
  const reasons = new Map<string, CaseFigures['reasons'][number]>();
  const failing: string[] = [];
  lines.forEach((line, index) => {
    const [outcome, ...fields] = line.split('\t');
    if (outcome === 'refused') {
      const [kind = '', keyword = '', what = ''] = fields;
      const general = what
        .replace(/'[^']*'|"[^"]*"/g, '…')
        .replace(/(at|byte|branches) [^ ]*\d[^ ]*( and \d+)?/g, '$1 …');
      const key = `${kind} ${keyword} ${general}`;
      const reason = reasons.get(key) ?? { cases: 0, kind, keyword, what: general };
      reason.cases++;
      reasons.set(key, reason);
      sums.refused++;
      return;
    }
    const [
      compile = NaN,
      valid = 0,
      validRefused = 0,
      invalid = 0,
      invalidAccepted = 0,
      masksWrong = 0,
      pastLimits = 0,
      ...maskTimes
    ] = fields.map(Number);
    compiles.push(compile);
    for (const time of maskTimes) masks.push(time);
    sums.valid += valid;
    sums.validRefused += validRefused;
    sums.invalid += invalid;
    sums.invalidAccepted += invalidAccepted;
    sums.masksWrong += masksWrong;
    sums.pastLimits += pastLimits;
    if (validRefused + invalidAccepted + masksWrong + pastLimits === 0) sums.passing++;
    else failing.push((cases[index] as Case).name);
  });
  return {
    cases: cases.length,
    ...sums,
    percentPassing: (100 * sums.passing) / cases.length,
    maskMicroseconds: quantiles(masks),
    compileMicroseconds: quantiles(compiles),
    reasons: [...reasons.values()].sort((a, b) => b.cases - a.cases),
    failing,
  };
}

function quantiles(values: readonly number[]): Quantiles {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return {
    count: sorted.length,
    average: sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
    p50: at(0.5),
    p99: at(0.99),
    max: at(1),
  };
}

function tableOf(figures: CaseFigures): string {
  const { maskMicroseconds: mask, compileMicroseconds: compile } = figures;
  const share = (part: number, whole: number): string =>
    `${part} of ${whole} (${whole === 0 ? '0' : ((100 * part) / whole).toFixed(2)} %)`;
  const rows: [what: string, here: string, target: string, best: string][] = [
    ['cases passing', `${share(figures.passing, figures.cases)}`, '90 percent', '79 percent'],
    ['invalid instances accepted', share(figures.invalidAccepted, figures.invalid), '0', '0'],
    ['valid instances refused', share(figures.validRefused, figures.valid), 'under 0.1 percent', '0.2 percent'],
    [
      'mask, average / p99',
      `${mask.average.toFixed(1)} / ${mask.p99.toFixed(0)} µs (${mask.count} masks)`,
      '40 / 400 µs',
      '64 / 533 µs',
    ],
    [
      'compile to first mask, p50 / p99',
      `${(compile.p50 / 1000).toFixed(2)} / ${(compile.p99 / 1000).toFixed(1)} ms`,
      '0.8 / 15 ms',
      '1.0 / 18 ms',
    ],
  ];
  const text = [
    '| | here | target | best known |',
    '|---|---|---|---|',
    ...rows.map((row) => `| ${row.join(' | ')} |`),
  ];
  text.push(
    '',
    `refused: ${figures.refused}; past the limits of use: ${figures.pastLimits}; masks that disagree with the automaton: ${figures.masksWrong}`,
    '',
  );
  for (const { cases, kind, keyword, what } of figures.reasons.slice(0, 10))
    text.push(`${String(cases).padStart(5)}  ${kind} ${keyword}: ${what}`);
  return `${text.join('\n')}\n`;
}

/**
 * A schema for an endless list of records that contain strings, numbers and enums, so that no stream ends before all
 * its tokens are counted.
 */
const RECORDS = {
  type: 'array',
  minItems: 100_000,
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['name', 'age', 'kind', 'tags'],
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 40 },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      kind: { enum: ['alpha', 'beta', 'gamma'] },
      tags: { type: 'array', items: { type: 'string', pattern: '^[a-z]{2,12}$' }, maxItems: 4 },
    },
  },
};

/**
 * Decodes constrained and unconstrained streams alternately, with sampling. Returns the speed of the constrained
 * streams as a fraction of the speed of the unconstrained streams.
 */
async function measureDecode(model: string, streams: number, tokens: number, repeats: number): Promise<DecodeFigures> {
  const load = { ...benchLoadOptions, maxSequences: streams };
  const engine = new Engine(await loadAddon().load(model, model, load, () => undefined));
  try {
    const { grammar, problems } = await engine.compileGrammar({
      kind: 'json_schema',
      schema: JSON.stringify(RECORDS),
      strict: true,
      oneOfAsAnyOf: true,
      order: 'schema',
      whiteSpace: 'none',
    });
    if (grammar === null) throw new Error(`the schema was refused: ${problems.at(-1)?.what}`);
    const free: number[] = [],
      constrained: number[] = [],
      ratio: number[] = [];
    for (let repeat = -1; repeat < repeats; repeat++) {
      // The order alternates, so that changes in the machine's speed affect both kinds.
      const first = await decode(engine, streams, tokens, repeat % 2 === 0 ? null : grammar);
      const second = await decode(engine, streams, tokens, repeat % 2 === 0 ? grammar : null);
      if (repeat < 0) continue;
      const [without, under] = repeat % 2 === 0 ? [first, second] : [second, first];
      free.push(without);
      constrained.push(under);
      ratio.push(under / without);
    }
    return { streams, tokens, free: spreadOf(free), constrained: spreadOf(constrained), ratio: spreadOf(ratio) };
  } finally {
    await engine.close();
  }
}

const PROMPT_TOKENS = 16;

/** Returns the total tokens per second across all streams, measured until the slowest stream has finished. */
async function decode(engine: Engine, streams: number, tokens: number, format: NativeGrammar | null): Promise<number> {
  const ends = await Promise.all(
    Array.from({ length: streams }, (_, index) =>
      finish(engine, { ...submission(engine, PROMPT_TOKENS, tokens), temperature: 1, seed: BigInt(index), format }),
    ),
  );
  const made = ends.reduce((sum, { completionTokens }) => sum + completionTokens, 0);
  if (made !== streams * tokens) throw new Error(`${made} tokens instead of ${streams * tokens}: a stream ended early`);
  return (streams * (tokens - 1)) / (Math.max(...ends.map(({ decodeMs }) => decodeMs)) / 1000);
}
