// Token counts: how they are written, sampled and displayed. No side effects.
//
//   512          fixed
//   256..1024    uniformly distributed
//   512±128      log-normal with this mean and standard deviation, clamped to 1/4 and 4 times the mean (or 512~128)

import { LoadError } from './load-error.js';
import type { Draws } from '../../shared/random.js';
import type { Lengths } from './types.js';

const MOST = 10_000_000;

/** `what`: the name used in error messages, such as "--prompt-tokens". Throws LoadError. */
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
    throw new LoadError(
      `${what}: "${text}" is not a length; expected 512, 256..1024 or 512~128 (mean and standard deviation)`,
    );
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
  if (number(other) < number(one)) throw new LoadError(`${what}: "${text}" starts above its end`);
  return { kind: 'uniform', least: number(one), most: number(other) };
}

export function drawLength(lengths: Lengths, draws: Draws): number {
  if (lengths.kind === 'fixed') return lengths.tokens;
  const { least, most } = lengths;
  if (lengths.kind === 'uniform') return least + draws.below(most - least + 1);
  // Computes the parameters of the log-normal distribution from its mean and standard deviation.
  const variance = Math.log(1 + (lengths.deviation / lengths.mean) ** 2);
  const value = Math.exp(Math.log(lengths.mean) - variance / 2 + Math.sqrt(variance) * draws.normal());
  return Math.min(most, Math.max(least, Math.round(value)));
}

export function showLengths(lengths: Lengths): string {
  if (lengths.kind === 'fixed') return String(lengths.tokens);
  return lengths.kind === 'uniform' ? `${lengths.least} to ${lengths.most}` : `${lengths.mean} ± ${lengths.deviation}`;
}
