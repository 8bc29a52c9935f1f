// Simulates an engine with continuous batching. A step computes the next token of every running sequence, and as many
// prompt tokens as the batch size and the limit on the step time allow. Its duration consists of a fixed part (reading
// the weights), a part per token, and a part per attended token. The simulation is seeded and takes milliseconds.
import { percentileOf } from '../../src/bench/load/distribution.js';
import { randomFrom } from '../../src/shared/random.js';
import type { Random } from '../../src/shared/random.js';
import type { TuneSettings } from '../../src/shared/wire/tuning.js';

export interface Machine {
  readonly stepMs: number;
  readonly rowMs: number;
  readonly contextMs: number;
}
export interface Surface {
  readonly machine: Machine;
  /** Mean lengths in tokens, and the relative spread around these means. */
  readonly prompt: number;
  readonly answer: number;
  readonly spread: number;
  readonly ttftMs: number;
  readonly itlMs: number;
  readonly percentile: number;
}

interface Sequence {
  readonly arrived: number;
  prompt: number;
  left: number;
  length: number;
  lastAt: number;
  isAnswered: boolean;
}

const drawn = (mean: number, spread: number, random: Random): number =>
  Math.max(1, Math.round(mean * Math.exp(spread * (random() + random() + random() - 1.5) * 2)));

export interface Simulated {
  throughput: number;
  ttft: number;
  itl: number;
  seconds: number;
}

/**
 * Simulates `concurrency` clients until `requests` requests have completed. Each client sends its next request after it
 * has received a response. The initial requests, which all start together, are not counted.
 */
export function simulate(
  { machine, prompt, answer, spread, percentile }: Surface,
  settings: TuneSettings,
  concurrency: number,
  requests: number,
  seed: number,
): Simulated {
  const random = randomFrom(seed);
  const cost = (rows: number, context: number): number =>
    machine.stepMs + machine.rowMs * rows + machine.contextMs * context;
  const fresh = (arrived: number): Sequence => {
    const length = drawn(prompt, spread, random);
    return { arrived, prompt: length, left: drawn(answer, spread, random), length, lastAt: arrived, isAnswered: false };
  };
  const waiting = Array.from({ length: concurrency }, () => fresh(0));
  let running: Sequence[] = [];
  const ttft: number[] = [];
  const itl: number[] = [];
  let [now, done, warmAt] = [0, 0, 0];
  while (done < requests + concurrency) {
    while (running.length < settings.max_sequences && waiting.length > 0) running.push(waiting.shift() as Sequence);
    let served = running.filter((one) => one.prompt === 0);
    if (served.length > settings.max_batch_tokens)
      // Sequences take turns when the batch is full.
      served = served.sort((a, b) => a.lastAt - b.lastAt).slice(0, settings.max_batch_tokens);
    const context = served.reduce((sum, { length }) => sum + length, 0);
    let rows = served.length;
    const begun: Sequence[] = [];
    for (const one of running) {
      if (one.prompt === 0) continue;
      // The limit on the step time applies only while other sequences are generating tokens.
      const bound =
        served.length > 0
          ? Math.max(1, Math.floor((settings.step_ms - cost(rows, context)) / machine.rowMs))
          : Infinity;
      const take = Math.min(one.prompt, settings.max_batch_tokens - rows, bound);
      if (take <= 0) break;
      one.prompt -= take;
      rows += take;
      if (one.prompt === 0) begun.push(one);
    }
    now += cost(rows, context) * (1 + 0.06 * (random() - 0.5));
    for (const one of [...served, ...begun]) {
      if (done >= concurrency) (one.isAnswered ? itl : ttft).push(now - (one.isAnswered ? one.lastAt : one.arrived));
      one.isAnswered = true;
      one.lastAt = now;
      one.length++;
      if (--one.left > 0) continue;
      if (++done === concurrency) warmAt = now;
      waiting.push(fresh(now));
    }
    running = running.filter(({ left }) => left > 0);
  }
  const at = (values: readonly number[]): number => percentileOf(Float64Array.from(values).sort(), percentile);
  return {
    throughput: (requests / (now - warmAt)) * 1_000,
    ttft: at(ttft),
    itl: at(itl),
    seconds: (now - warmAt) / 1_000,
  };
}

/** Two machines with two workloads: short prompts on a GPU, and long documents on a CPU. */
export const SURFACES: Readonly<Record<'conversation' | 'documents', Surface>> = {
  conversation: {
    machine: { stepMs: 9, rowMs: 0.02, contextMs: 0.00025 },
    prompt: 220,
    answer: 60,
    spread: 0.5,
    ttftMs: 250,
    itlMs: 30,
    percentile: 99,
  },
  documents: {
    machine: { stepMs: 40, rowMs: 0.7, contextMs: 0.0015 },
    prompt: 600,
    answer: 30,
    spread: 0.4,
    ttftMs: 6_000,
    itlMs: 150,
    percentile: 95,
  },
};
