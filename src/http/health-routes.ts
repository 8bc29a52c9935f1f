// Health and metrics.
// - /livez: the event loop is running, and no engine has stopped permanently.
// - /readyz: requests would be served now, because all models are loaded, the server is not draining, and the engines
//   are making progress. Operators see the underlying values; other clients see only states.
// - /metrics: Prometheus text, for operators.

import { VERSION } from '../shared/version.js';
import type { Exchange, Route } from './exchange.js';
import type { Telemetry } from '../telemetry/types.js';
import type { CountersHealth } from '../admission/admission.js';
import { isSkewed } from '../shared/clock-health.js';
import type { ClockSkew } from '../shared/clock-health.js';
import type { HeldErasure } from '../shared/erasure-hold.js';
import type { ThreadState } from '../shared/thread-states.js';

export interface ModelHealth {
  name: string;
  state: 'loading' | 'ready' | 'failed' | 'idle' | 'unloaded';
  /** Whether the model was unloaded and is now being loaded for a waiting request. */
  awaited: boolean;
  /** 0 to 1 while loading. */
  progress: number;
  error: string | null;
  /** Whether the server is not ready if this model fails. False for LoRA adapters that operators loaded at run time. */
  isRequired: boolean;
  /** Whether the engine stopped while serving because of a device error. Only restarting the process recovers it. */
  stopped: boolean;
  running: number;
  waiting: number;
  lastStepAgeMs: number;
}

export interface Health {
  draining: boolean;
  /** States of the HTTP workers. Empty if the main thread serves requests. */
  threads: readonly ThreadState[];
  models: readonly ModelHealth[];
  /** State of the shared limit counters. Null or absent: limits are counted in this process only. */
  counters?: CountersHealth | null;
  /** Skew relative to the clocks of other machines. Null or absent: unknown. */
  skew?: ClockSkew | null;
  /** Set if the erasure of expired data is blocked. Null or absent: expired data is being erased normally. */
  erasure?: HeldErasure | null;
  /** Why the database in the data directory no longer accepts writes; null or absent if it accepts them. */
  storage?: string | null;
}

export interface HealthOptions {
  health(): Health;
  telemetry: Telemetry;
  /** If requests are running or waiting but no step has finished for this long, the model counts as stalled. */
  stallMs: number;
  metricsPublic: boolean;
  /** Decides which clients may see the details for operators. */
  readers: {
    /** Rejects with ApiError 401 or 403. */
    check(exchange: Exchange): Promise<void>;
    has(exchange: Exchange): Promise<boolean>;
  };
}

/**
 * The reason why only a restart would help, or null. A model that failed to load is not such a reason, because it would
 * fail again.
 */
export function notAlive(health: Health): string | null {
  const model = health.models.find(({ stopped }) => stopped);
  return model === undefined ? null : `${model.name}: the engine stopped after an internal error; restart the server`;
}

/** Why the server is not ready, or null. */
export function notReady(health: Health, stallMs: number): string | null {
  // Checked first, because a failed database also causes a drain and is the more useful reason.
  if (health.storage !== null && health.storage !== undefined) return health.storage;
  if (health.draining) return 'draining';
  if (health.models.length === 0) return 'no model';
  // With the `share` policy, the process keeps serving. With the `refuse` policy, it would reject every request.
  if (health.counters?.state === 'away' && health.counters.policy === 'refuse') return 'Redis is unreachable';
  // A restarting or lost worker is reported, but the server stays ready while another worker is serving.
  if (health.threads.length > 0 && !health.threads.includes('serving')) return 'no HTTP worker is serving';
  for (const model of health.models) {
    if (model.state === 'unloaded' || model.state === 'idle') continue; // unloaded by an operator, or not requested yet
    if (model.state === 'loading' && model.awaited) continue;
    if (model.state === 'failed' && !model.isRequired) continue;
    if (model.state !== 'ready') return `${model.name} is ${model.state}`;
    // Waiting requests count too, because requests that arrive while a step hangs cannot make progress either.
    if (model.running + model.waiting > 0 && model.lastStepAgeMs > stallMs)
      return `${model.name} has requests but completed no step for ${Math.round(model.lastStepAgeMs)} ms`;
  }
  return null;
}

export function healthRoutes(options: HealthOptions): Route[] {
  const { telemetry } = options;
  return [
    {
      method: 'GET',
      path: '/livez',
      scope: null,
      public: true,
      handler: (exchange) => {
        const reason = notAlive(options.health());
        exchange.json(reason === null ? 200 : 503, {
          status: reason === null ? 'ok' : 'failed',
          ...(reason === null ? {} : { reason }),
          pid: process.pid,
          uptime_s: Math.round(process.uptime()),
          event_loop_lag_ms: round(telemetry.loopLagMs()),
        });
      },
    },
    // Other inference servers use this path. Test harnesses poll it until it returns 200.
    {
      method: 'GET',
      path: '/health',
      scope: null,
      public: true,
      handler: (exchange) => {
        const reason = notReady(options.health(), options.stallMs);
        exchange.json(reason === null ? 200 : 503, { status: reason === null ? 'ok' : 'not_ready' });
      },
    },
    {
      method: 'GET',
      path: '/version',
      scope: null,
      public: true,
      handler: (exchange) => exchange.json(200, { version: VERSION }),
    },
    {
      method: 'GET',
      path: '/healthz',
      scope: null,
      public: true,
      handler: (exchange) => exchange.json(200, { status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      scope: null,
      public: true,
      handler: async (exchange) => {
        const health = options.health();
        const reason = notReady(health, options.stallMs);
        // Errors contain file names, and load figures reveal information about other clients.
        const whole = await options.readers.has(exchange);
        exchange.json(reason === null ? 200 : 503, {
          status: reason === null ? 'ready' : 'not_ready',
          ...(whole ? { reason } : {}),
          draining: health.draining,
          ...(whole ? { stall_ms: options.stallMs } : {}),
          ...(health.threads.length === 0 ? {} : { threads: health.threads }),
          ...(health.counters === null || health.counters === undefined
            ? {}
            : { counters: whole ? health.counters : { state: health.counters.state } }),
          ...(health.skew === null || health.skew === undefined ? {} : { clock: clockBody(health.skew, whole) }),
          ...(health.erasure === null || health.erasure === undefined
            ? {}
            : { erasure: erasureBody(health.erasure, whole) }),
          models: health.models.map((model) => ({
            name: model.name,
            state: model.state,
            progress: round(model.progress),
            ...(whole
              ? {
                  error: model.error,
                  running: model.running,
                  waiting: model.waiting,
                  last_step_age_ms: round(model.lastStepAgeMs),
                }
              : {}),
          })),
        });
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      scope: null,
      public: true,
      handler: async (exchange) => {
        if (!options.metricsPublic) await options.readers.check(exchange);
        const body = await telemetry.scrape();
        exchange.text(200, 'text/plain; version=0.0.4; charset=utf-8', body);
      },
    },
  ];
}

const clockBody = (skew: ClockSkew, whole: boolean): object => ({
  state: isSkewed(skew) ? 'skewed' : 'ok',
  ...(whole ? { skew_ms: Math.round(skew.skewMs), spread_ms: Math.round(skew.spreadMs), threads: skew.threads } : {}),
});

const erasureBody = ({ aheadMs, leftMs }: HeldErasure, whole: boolean): object => ({
  state: 'held',
  ...(whole ? { clock_ahead_ms: Math.round(aheadMs), held_for_ms: Math.round(leftMs) } : {}),
});

const round = (value: number): number => Math.round(value * 1000) / 1000;
