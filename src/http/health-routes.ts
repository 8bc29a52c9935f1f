// Health and metrics. /livez: the event loop turns, and no engine has stopped for good. /readyz: requests would be served now, which means that
// all models are loaded, nobody has asked for shutdown, and work makes progress; its body shows operators the raw
// values behind the verdict, and strangers states alone. /metrics: Prometheus text, for operators.

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
  /** It rested and is loaded because somebody asks for it: whoever asks waits. */
  awaited: boolean;
  /** 0 … 1 while loading. */
  progress: number;
  error: string | null;
  /** Its engine stopped while it served (a fault of the device): only a new process computes again. */
  stopped: boolean;
  running: number;
  waiting: number;
  lastStepAgeMs: number;
}

export interface Health {
  draining: boolean;
  /** Threads that answer requests; none if the main thread answers. */
  threads: readonly ThreadState[];
  models: readonly ModelHealth[];
  /** Null or absent: what is counted is this process's own. */
  counters?: CountersHealth | null;
  /** Null or absent: no other machine's clock is known. */
  skew?: ClockSkew | null;
  /** Null or absent: what is past its time is erased. */
  erasure?: HeldErasure | null;
  /** Why the data folder's database takes no writes any more; null or absent: it does. */
  storage?: string | null;
}

export interface HealthOptions {
  health(): Health;
  telemetry: Telemetry;
  /** Requests, running or waiting, and no step for this long: that is not progress. */
  stallMs: number;
  metricsPublic: boolean;
  /** Who may read what tells of everybody. */
  readers: {
    /** Rejects with ApiError 401, 403. */
    check(exchange: Exchange): Promise<void>;
    has(exchange: Exchange): Promise<boolean>;
  };
}

/** Why nothing but a new process would help, or null. A model that could not be loaded is none: it would not load again. */
export function notAlive(health: Health): string | null {
  const model = health.models.find(({ stopped }) => stopped);
  return model === undefined
    ? null
    : `${model.name}: its engine has stopped on an internal error and computes nothing until the server is started again`;
}

/** Why the server is not ready, or null. */
export function notReady(health: Health, stallMs: number): string | null {
  if (health.storage !== null && health.storage !== undefined) return health.storage; // before the drain that follows from it
  if (health.draining) return 'draining';
  if (health.models.length === 0) return 'no model';
  // With its share of the limits it serves on; without any it would refuse everybody.
  if (health.counters?.state === 'away' && health.counters.policy === 'refuse')
    return 'the shared counters cannot be reached';
  // One that is started again, or lost, leaves the others serving: that is shown, and no reason to send nobody.
  if (health.threads.length > 0 && !health.threads.includes('serving')) return 'no answering thread serves';
  for (const model of health.models) {
    if (model.state === 'unloaded' || model.state === 'idle') continue; // as an operator wants it; as nobody has asked for it
    if (model.state === 'loading' && model.awaited) continue;
    if (model.state !== 'ready') return `${model.name} is ${model.state}`;
    // Waiting counts too: requests that came while a step hangs are as stuck as those in it.
    if (model.running + model.waiting > 0 && model.lastStepAgeMs > stallMs)
      return `${model.name} has requests but ended no step for ${Math.round(model.lastStepAgeMs)} ms`;
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
      serve: (exchange) => {
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
    // As inference servers have it, whose harnesses wait until it says 200.
    {
      method: 'GET',
      path: '/health',
      scope: null,
      public: true,
      serve: (exchange) => {
        const reason = notReady(options.health(), options.stallMs);
        exchange.json(reason === null ? 200 : 503, { status: reason === null ? 'ok' : 'not_ready' });
      },
    },
    {
      method: 'GET',
      path: '/version',
      scope: null,
      public: true,
      serve: (exchange) => exchange.json(200, { version: VERSION }),
    },
    {
      method: 'GET',
      path: '/healthz',
      scope: null,
      public: true,
      serve: (exchange) => exchange.json(200, { status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      scope: null,
      public: true,
      serve: async (exchange) => {
        const health = options.health();
        const reason = notReady(health, options.stallMs);
        const whole = await options.readers.has(exchange); // errors name files, and what runs is other people's
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
      serve: async (exchange) => {
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
