// Numbers of tokens: how they are written, drawn and shown. Pure.
//
//   512          always so many
//   256..1024    every length between equally often
//   512±128      log-normal with this mean and standard deviation, cut at a quarter and four times the mean (or ~ for ±)

import { LoadError } from './load-error.js';
import type { Draws } from '../../shared/random.js';
import type { Lengths } from './types.js';

const MOST = 10_000_000;

/** `what` names it in errors: "--prompt-tokens". Throws LoadError. */
export function parseLengths(text: string, what: string, least = 1): Lengths {
  const number = (digits: string): number => {
    const value = Number(digits.replace(/[_,]/g, ''));
    if (!(value >= least && value <= MOST))
      throw new LoadError(`${what}: ${digits} is not between ${least} and ${MOST}`);
    return value;
  };
  const [, one = '', sign, other = ''] =
    /^\s*([0-9][0-9_,]*)\s*(?:(\.\.|±|\+-|~)\s*([0-9][0-9_,]*))?\s*$/.exec(text) ?? [];
  if (one === '')
    throw new LoadError(`${what}: "${text}" is no length; 512, 256..1024 or 512~128 (mean and standard deviation)`);
  if (sign === undefined) return { kind: 'fixed', tokens: number(one) };
  if (sign !== '..') {
    const mean = number(one);
    return {
      kind: 'lognormal',
      mean,
      deviation: number(other),
      least: Math.max(least, Math.ceil(mean / 4)),
      most: Math.min(MOST, mean * 4),
    };
  }
  if (number(other) < number(one)) throw new LoadError(`${what}: "${text}" begins above its end`);
  return { kind: 'uniform', least: number(one), most: number(other) };
}

export function drawLength(lengths: Lengths, draws: Draws): number {
  if (lengths.kind === 'fixed') return lengths.tokens;
  const { least, most } = lengths;
  if (lengths.kind === 'uniform') return least + draws.below(most - least + 1);
  // A log-normal's own parameters from its mean and deviation.
  const variance = Math.log(1 + (lengths.deviation / lengths.mean) ** 2);
  const value = Math.exp(Math.log(lengths.mean) - variance / 2 + Math.sqrt(variance) * draws.normal());
  return Math.min(most, Math.max(least, Math.round(value)));
}

export function showLengths(lengths: Lengths): string {
  if (lengths.kind === 'fixed') return String(lengths.tokens);
  return lengths.kind === 'uniform' ? `${lengths.least} to ${lengths.most}` : `${lengths.mean} ± ${lengths.deviation}`;
}
