// Maps a token's probability to a CSS class and a description. No side effects.

/** Likely tokens get no background, so that unlikely ones stand out. */
const LEVELS: readonly (readonly [least: number, level: string])[] = [
  [0.9, 'sure'],
  [0.6, 'likely'],
  [0.3, 'open'],
  [0.1, 'doubtful'],
  [0, 'unlikely'],
];

export const levelOf = (logprob: number): string =>
  LEVELS.find(([least]) => Math.exp(logprob) >= least)?.[1] ?? 'unlikely';

export function percent(logprob: number): string {
  const share = Math.exp(logprob) * 100;
  return share >= 99.95
    ? '100 %'
    : share >= 10
      ? `${share.toFixed(0)} %`
      : share >= 0.1
        ? `${share.toFixed(1)} %`
        : '< 0.1 %';
}
