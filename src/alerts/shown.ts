// Formats numbers and times for alerts.

import { showBytes } from '../config/kinds.js';

/** 0.125 → "12.5%". */
export const percent = (share: number): string => `${Number((share * 100).toPrecision(3))}%`;

/** 3400 → "3.4 s". */
export function duration(ms: number): string {
  const number = (value: number): number => Number(value.toPrecision(3));
  if (ms < 1_000) return `${number(ms)} ms`;
  if (ms < 120_000) return `${number(ms / 1_000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} minutes`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} hours`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/** 300 → "5 minutes". */
export const period = (seconds: number): string => {
  if (seconds % 60 !== 0 || seconds === 60) return `${seconds} seconds`;
  return seconds % 3_600 === 0 && seconds > 3_600 ? `${seconds / 3_600} hours` : `${seconds / 60} minutes`;
};

/** "2026-11-30 03:12:05 UTC". */
export const moment = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

export const money = (amount: number, currency: string): string => `${amount.toFixed(2)} ${currency}`.trim();

export { showBytes };
