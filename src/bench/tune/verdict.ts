// Derives the result from the measurements and describes it for the operator. No side effects.

import type { TunePick, TuneResult, TuneSettings, TuneTrial } from '../../shared/wire/tuning.js';
import type { TunePlan } from './plan.js';

/** Minimum gain that justifies a change. */
const MIN_GAIN = 1.03;

export function verdictOf(
  plan: Pick<TunePlan, 'loadKind'>,
  current: TunePick | null,
  best: TunePick | null,
  trials: readonly TuneTrial[],
): TuneResult {
  if (best === null) {
    const says =
      current === null
        ? `None of the settings tried meets the objectives at any load. Closest: ${nearest(trials)}.`
        : `No other settings meet the objectives reliably. The current settings give ${rate(current)} at ${loadText(plan.loadKind, current.load)}.`;
    return { outcome: current === null ? 'nothing_meets' : 'kept', current, best: null, gain: null, says };
  }
  const gain = current === null ? null : best.goodput.mean / current.goodput.mean;
  if (current === null || gain === null) {
    return {
      outcome: 'advised',
      current,
      best,
      gain,
      says: `The current settings miss the objectives. ${settingsText(best.settings)} meet them: ${rate(best)} at ${loadText(plan.loadKind, best.load)}.`,
    };
  }
  // The best settings are significantly better if every one of their runs beats all runs of the current settings, and
  // the gain reaches the minimum.
  const surely = gain >= MIN_GAIN && Math.min(...best.goodput.runs) > Math.max(...current.goodput.runs);
  if (!surely) {
    return {
      outcome: 'kept',
      current,
      best,
      gain,
      says: `Keep the current settings: ${rate(current)} at ${loadText(plan.loadKind, current.load)}; the best alternative gives ${rate(best)}, which is not a significant gain.`,
    };
  }
  return {
    outcome: 'advised',
    current,
    best,
    gain,
    says: `${settingsText(best.settings)} give ${rate(best)} at ${loadText(plan.loadKind, best.load)}, ${((gain - 1) * 100).toFixed(0)} percent more than the current settings (${rate(current)} at ${loadText(plan.loadKind, current.load)}), and meet every objective.`,
  };
}

const rate = ({ goodput: { mean, low, high } }: TunePick): string =>
  `${mean.toPrecision(3)} good requests per second${low === null || high === null ? '' : ` (95 percent: ${Math.max(0, low).toPrecision(3)} to ${high.toPrecision(3)})`}`;

export function settingsText({ max_batch_tokens, max_sequences, step_ms }: TuneSettings): string {
  return `max_batch_tokens ${max_batch_tokens}, max_sequences ${max_sequences}, step_ms ${step_ms}`;
}

export function loadText(kind: TunePlan['loadKind'], load: number): string {
  return kind === 'concurrency'
    ? `${load} request${load === 1 ? '' : 's'} in flight`
    : kind === 'rate'
      ? `${load} request${load === 1 ? '' : 's'} per second`
      : `${load} times the trace speed`;
}

function nearest(trials: readonly TuneTrial[]): string {
  const worst = (trial: TuneTrial): number =>
    Math.max(...trial.verdicts.map(({ value, limit }) => (value === null ? Infinity : value / Math.max(1e-9, limit))));
  const [trial] = [...trials].sort((a, b) => worst(a) - worst(b));
  if (trial === undefined) return 'nothing was measured';
  return `${settingsText(trial.settings)} (${trial.verdicts.map(({ name, value }) => `${name} ${value === null ? 'not measured' : value < 1 ? value.toPrecision(2) : Math.round(value)}`).join(', ')})`;
}
