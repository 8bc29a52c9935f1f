// Operator routes for tuning runs: past runs, runs started here, and runs reported by the command line.

import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import { MIN_TRIALS, MAX_TRIAL_S, MAX_TRIALS } from '../../bench/tune/plan.js';
import type { TuneStart } from '../../shared/wire/tuning.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import type { NoteOperation, OperatorGuard } from './operator-guard.js';
import { recentShapes } from './request-shapes.js';
import { tuneRunBody } from './tune-run-body.js';
import type { EngineTuning } from './engine-tuning.js';
import type { TuneRunStore } from './tune-runs.js';
import type { Tunings } from './tunings.js';

const MAX_TOKENS = 1_000_000;

const startBody = z.object({
  model: z.string().min(1).max(256),
  slo: z.string().min(1).max(1_024),
  workload: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('recent') }),
    z.object({
      kind: z.literal('fixed'),
      prompt_tokens: z.number().int().min(1).max(MAX_TOKENS),
      output_tokens: z.number().int().min(1).max(MAX_TOKENS),
    }),
  ]),
  load: z.enum(['concurrency', 'rate']),
  max_load: z.number().gt(0).max(20_000).optional(),
  trials: z.number().int().min(MIN_TRIALS).max(MAX_TRIALS),
  trial_s: z.number().min(0.2).max(MAX_TRIAL_S),
  apply: z.boolean(),
}) satisfies z.ZodType<TuneStart>;

export interface TuningDeps {
  tuning: EngineTuning;
  tuneRuns: TuneRunStore;
  tunings: Tunings;
  requestLog: Pick<RequestLog, 'list'>;
  note: NoteOperation;
}

export function tuningRoutes(
  guard: OperatorGuard,
  { tuning, tuneRuns, tunings, requestLog, note }: TuningDeps,
): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/tuning',
      handler: async ({ exchange }) => {
        await tunings.endLost();
        exchange.json(200, { object: 'list', data: await tuneRuns.list(), has_more: false, next: null });
      },
    }),

    guard({
      method: 'POST',
      path: '/tuning',
      body: startBody,
      handler: async ({ exchange, actor, body }) => {
        const run = await tunings.start(body, actor);
        await note(actor, 'engine.tuning_started', run.model);
        exchange.json(200, run);
      },
    }),

    guard({
      method: 'GET',
      path: '/tuning/:run',
      handler: async ({ exchange }) => {
        await tunings.endLost();
        const run = await tuneRuns.get(exchange.params['run'] as string);
        if (run === null) throw apiError('resource_not_found', 'Tuning run not found.', 'run');
        exchange.json(200, run);
      },
    }),

    // The command line calls this route, so that its runs are listed too.
    guard({
      method: 'PUT',
      path: '/tuning/:run',
      body: tuneRunBody,
      handler: async ({ exchange, body }) => {
        if (body.id !== exchange.params['run'])
          throw apiError('invalid_value', "The run's id does not match the path.", 'id');
        await tuneRuns.put(body, null);
        exchange.json(200, {});
      },
    }),

    guard({
      method: 'DELETE',
      path: '/tuning/:run',
      handler: ({ exchange }) => {
        tunings.stop(exchange.params['run'] as string);
        exchange.json(200, {});
      },
    }),

    guard({
      method: 'GET',
      path: '/request-shapes',
      handler: async ({ exchange }) => {
        const { names } = await tuning.get(exchange.query.get('model') ?? '');
        const data = (await recentShapes(requestLog, names, await tuneRuns.keyIds())).map(
          ({ at, inputTokens, cachedTokens, outputTokens }) => ({
            at: new Date(at).toISOString(),
            input_tokens: inputTokens,
            cached_tokens: cachedTokens,
            output_tokens: outputTokens,
          }),
        );
        exchange.json(200, { object: 'list', data, has_more: false, next: null });
      },
    }),
  ];
}
