// The usage sums and their storage keys. Pure except for the tables' names.
//
//   usage-rows      [ended at, request id, number]               one per generation that ran, kept usage.row_days
//   usage-hours     [organization, hour, model, key, endpoint]   sums, kept usage.aggregate_days
//   usage-latencies [organization, hour, model, key]             sketches of durations, kept usage.aggregate_days
//   usage-months    [organization, '2026-11']                    tokens, for the monthly cap
//
// Times are milliseconds since the Unix epoch, and hours are also counted from there.

import { monthName, monthNumber } from '../admission/month-use.js';
import type { FinishedUsage, RejectedUsage } from '../shared/usage-sink.js';

export const HOUR_MS = 3_600_000;

/**
 * Requests, errors, rate-limited requests; input, cached, output and reasoning tokens; images. Then, for requests that
 * returned a token: their number, and the sums of their time to first token, total duration and time after the first
 * token, in milliseconds. Sums stored by old versions lack these.
 */
export type UsageSums = [
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
];

export type HourKey = [organizationId: string, hour: number, model: string, keyId: string, endpoint: string];

/** The stored row: everything known about one generation. The API format can be derived from the endpoint. */
export type UsageRow = FinishedUsage;

export const noUsage = (): UsageSums => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

export function addSums(to: UsageSums, more: Readonly<UsageSums>): UsageSums {
  for (let at = 0; at < to.length; at++) to[at] = (to[at] as number) + (more[at] ?? 0);
  return to;
}

export const isFinished = (usage: FinishedUsage | RejectedUsage): usage is FinishedUsage => 'requestId' in usage;

/**
 * A generation that ran counts as a request and, if it failed, also as an error. A rejected request does not count as a
 * request.
 */
export function sumsOf(usage: FinishedUsage | RejectedUsage): UsageSums {
  if (!isFinished(usage))
    return usage.status === 429 ? [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0] : [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  const { receivedAt, firstTokenAt, endedAt } = usage;
  return [
    1,
    usage.status === 'failed' ? 1 : 0,
    0,
    usage.inputTokens,
    usage.cachedTokens,
    usage.outputTokens,
    usage.reasoningTokens,
    usage.images,
    ...(firstTokenAt === null
      ? ([0, 0, 0, 0] as const)
      : ([
          1,
          Math.max(0, firstTokenAt - receivedAt),
          Math.max(0, endedAt - receivedAt),
          Math.max(0, endedAt - firstTokenAt),
        ] as const)),
  ];
}

/** Totals over the entries: hourly sums by key, and monthly tokens, each under its storage key. */
export function summedUp(entries: readonly { readonly usage: FinishedUsage | RejectedUsage; readonly at: number }[]): {
  hours: Map<string, { key: HourKey; sums: UsageSums }>;
  months: Map<string, { key: [organizationId: string, month: string]; tokens: number }>;
} {
  const hours = new Map<string, { key: HourKey; sums: UsageSums }>();
  const months = new Map<string, { key: [string, string]; tokens: number }>();
  for (const { usage, at } of entries) {
    const key: HourKey = [
      usage.organizationId,
      Math.floor(at / HOUR_MS),
      usage.model ?? '',
      usage.keyId,
      usage.endpoint,
    ];
    const name = key.join('\n');
    let hour = hours.get(name);
    if (hour === undefined) hours.set(name, (hour = { key, sums: noUsage() }));
    addSums(hour.sums, sumsOf(usage));
    if (!isFinished(usage)) continue;
    const month = monthName(monthNumber(at));
    let sum = months.get(`${usage.organizationId}\n${month}`);
    if (sum === undefined)
      months.set(`${usage.organizationId}\n${month}`, (sum = { key: [usage.organizationId, month], tokens: 0 }));
    sum.tokens += usage.inputTokens + usage.outputTokens;
  }
  return { hours, months };
}
