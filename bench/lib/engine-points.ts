// The measurement points of the engine benchmark. Each point yields this engine's rate, the cost of each operation in
// its steps and, if there is a peer, the peer's rate.
import type { Inspection, OpFigures, SubmitOptions } from '../../src/engine/addon-types.js';
import type { Engine } from '../../src/engine/engine.js';
import { continuation, finish, submission } from './engine-requests.js';
import { peerBatch, peerDecode, peerPrefill, type PeerOptions } from './peer.js';

/** Totals over several steps: their duration, their number, and the cost of their operations. */
export interface StepCosts {
  seconds: number;
  steps: number;
  operations: OpFigures[];
}

export interface Measured {
  rate: number;
  costs: StepCosts;
}

export interface Point {
  name: string;
  kind: 'prefill' | 'batch' | 'depth';
  size: number; // prompt tokens, sequences, or context depth in tokens, depending on the kind of point
  measure(): Promise<Measured>;
  /** Null if this peer cannot measure the point, or if measuring it would take too long. */
  peer(): (() => Promise<number>) | null;
  /** For single-stream decode: bytes of weights, keys and values read per token. */
  bytesPerToken?: number;
}

export interface PointLists {
  prefill: number[];
  batch: number[];
  depth: number[];
  tokens: number;
  peerMost: number;
}

/** Prompt length, in tokens, for decode measurements that do not specify a context depth. */
export const SHALLOW = 16;

export function pointsOf(engine: Engine, lists: PointLists, inspection: Inspection, peer: PeerOptions): Point[] {
  const fits = (tokens: number, what: string): boolean => {
    if (tokens <= engine.maxContext) return true;
    process.stderr.write(`${what} skipped: ${tokens} tokens exceed the context of ${engine.maxContext}\n`);
    return false;
  };
  const { tokens, peerMost } = lists;
  const points: Point[] = [];
  for (const size of lists.prefill) {
    const name = `prefill ${size}`;
    if (fits(size + 1, name))
      points.push({
        name,
        kind: 'prefill',
        size,
        measure: () => measurePrefill(engine, size),
        peer: () => (size > peerMost ? null : peerPrefill(peer, size)),
      });
  }
  for (const size of lists.batch) {
    const name = `decode batch ${size}`;
    if (!fits(SHALLOW + tokens, name)) continue;
    points.push({
      name,
      kind: 'batch',
      size,
      measure: () =>
        measureDecode(
          engine,
          Array.from({ length: size }, () => submission(engine, SHALLOW, tokens)),
        ),
      // llama-bench gives more repeatable single-stream results than llama-batched-bench, which has no warm-up.
      peer: () => (size === 1 ? peerDecode(peer, 0, tokens) : peerBatch(peer, size, SHALLOW, tokens)),
      ...(size === 1 ? { bytesPerToken: bytesPerToken(inspection, SHALLOW + tokens / 2) } : {}),
    });
  }
  for (const size of lists.depth) {
    const name = `decode depth ${size}`;
    if (!fits(size + tokens, name)) continue;
    points.push({
      name,
      kind: 'depth',
      size,
      measure: () => measureDecode(engine, [continuation(engine, size, tokens)]),
      peer: () => (size > peerMost ? null : peerDecode(peer, size, tokens)),
      bytesPerToken: bytesPerToken(inspection, size + tokens / 2),
    });
  }
  return points;
}

/** Tables from which each token reads only one row. */
const BY_ROW = /^(token_embd|per_layer_token_embd)\.weight$/;

/**
 * Returns the number of bytes that a token's forward pass reads: each weight once (for experts, only the share in use),
 * the recurrent state, and the keys and values at earlier positions.
 */
function bytesPerToken({ tensors, model, plan }: Inspection, positions: number): number {
  const tied = !tensors.some(({ name }) => name === 'output.weight');
  const ofExperts = model === null || model.experts === 0 ? 1 : model.usedExperts / model.experts;
  const share = (name: string): number =>
    name.includes('_exps.') ? ofExperts : BY_ROW.test(name) && !(tied && name === 'token_embd.weight') ? 0 : 1;
  const weights = tensors.reduce((sum, { name, bytes }) => sum + bytes * share(name), 0);
  return weights + (plan?.slotBytes ?? 0) + ((plan?.pageBytes ?? 0) / 16) * positions;
}

async function measurePrefill(engine: Engine, length: number): Promise<Measured> {
  const before = costsOf(engine);
  const { prefillMs } = await finish(engine, submission(engine, length, 1));
  return { rate: length / (prefillMs / 1000), costs: difference(costsOf(engine), before) };
}

/**
 * Measures from the step in which the last sequence received its first token to the step in which the first sequence
 * ended, so that all sequences decode during the whole interval.
 */
async function measureDecode(engine: Engine, submissions: SubmitOptions[]): Promise<Measured> {
  const now = () => ({ at: performance.now(), tokens: engine.stats().decodeTokens, costs: costsOf(engine) });
  let begun = 0,
    ended = 0,
    first = now(),
    last = first;
  await Promise.all(
    submissions.map((options) =>
      finish(
        engine,
        options,
        () => {
          if (++begun === submissions.length) first = now();
        },
        () => {
          if (++ended === 1) last = now();
        },
      ),
    ),
  );
  return {
    rate: (last.tokens - first.tokens) / ((last.at - first.at) / 1000),
    costs: difference(last.costs, first.costs),
  };
}

function costsOf(engine: Engine): StepCosts {
  const { stepSeconds, steps } = engine.stats();
  return { seconds: stepSeconds, steps, operations: engine.profile() ?? [] };
}

function combine(a: StepCosts, b: StepCosts, sign: 1 | -1): StepCosts {
  const others = new Map(b.operations.map((operation) => [operation.name, operation]));
  const operations = a.operations.map((own): OpFigures => {
    const other = others.get(own.name);
    others.delete(own.name);
    const sum = (key: 'calls' | 'nanoseconds' | 'bytes' | 'operations'): number =>
      own[key] + sign * (other?.[key] ?? 0);
    return {
      name: own.name,
      calls: sum('calls'),
      nanoseconds: sum('nanoseconds'),
      bytes: sum('bytes'),
      operations: sum('operations'),
    };
  });
  if (sign > 0) operations.push(...others.values());
  return {
    seconds: a.seconds + sign * b.seconds,
    steps: a.steps + sign * b.steps,
    operations: operations.filter(({ calls }) => calls > 0),
  };
}

const difference = (after: StepCosts, before: StepCosts): StepCosts => combine(after, before, -1);
export const sumOf = (a: StepCosts, b: StepCosts): StepCosts => combine(a, b, 1);
