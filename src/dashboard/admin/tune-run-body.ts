// Schema for a tuning run reported by the command line. Every field that can grow is bounded.

import { z } from 'zod';
import { MAX_TRIALS } from '../../bench/tune/plan.js';
import type { TuneRun } from '../../shared/wire/tuning.js';

const text = (most: number): z.ZodString => z.string().max(most);
const amount = z.number().min(0);
const settings = z.object({ max_batch_tokens: amount, max_sequences: amount, step_ms: amount });
const verdicts = z
  .array(z.object({ name: text(64), limit: amount, value: amount.nullable(), met: z.boolean() }))
  .max(16);
const phase = z.enum(['current', 'search', 'confirm', 'verify']);
const pair = z.tuple([amount, amount]).nullable();
const pick = z.object({
  settings,
  load: amount,
  verdicts,
  goodput: z.object({
    mean: amount,
    low: z.number().nullable(),
    high: z.number().nullable(),
    runs: z.array(amount).max(MAX_TRIALS),
  }),
});

export const tuneRunBody: z.ZodType<TuneRun> = z.object({
  object: z.literal('tune_run'),
  id: z.string().regex(/^tun_[0-9A-Za-z]{8,40}$/),
  model: text(256),
  state: z.enum(['running', 'done', 'stopped', 'failed']),
  error: text(2_000).nullable(),
  by: text(256),
  started_at: z.iso.datetime(),
  ended_at: z.iso.datetime().nullable(),
  objectives: z.array(text(64)).max(16),
  workload: text(512),
  load_kind: z.enum(['concurrency', 'rate', 'speed']),
  trials_planned: amount,
  trial_s: amount,
  seed: amount,
  apply: z.boolean(),
  before: settings,
  phase,
  trials: z
    .array(
      z.object({
        number: amount,
        phase,
        settings,
        load: amount,
        seconds: amount,
        throughput: amount,
        goodput: amount,
        output_tokens_per_s: amount,
        ttft_ms: pair,
        itl_ms: pair,
        verdicts,
        met: z.boolean(),
        stopped: z.boolean(),
        errors: z.record(text(64), amount),
        front: z.boolean(),
      }),
    )
    .max(MAX_TRIALS),
  result: z
    .object({
      outcome: z.enum(['advised', 'kept', 'applied', 'rolled_back', 'nothing_meets']),
      current: pick.nullable(),
      best: pick.nullable(),
      gain: amount.nullable(),
      says: text(2_000),
    })
    .nullable(),
});
