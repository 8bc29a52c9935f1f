// What follows from the measurements, in words an operator can act on. Pure.

import type { TunePick, TuneResult, TuneSettings, TuneTrial } from '../../shared/wire/tuning.js';
import type { TunePlan } from './plan.js';

/** A gain below this is not worth a change. */
const LEAST_GAIN = 1.03;

export function verdictOf(
  plan: Pick<TunePlan, 'loadKind'>,
  current: TunePick | null,
  best: TunePick | null,
  trials: readonly TuneTrial[],
): TuneResult {
  if (best === null) {
    const says =
      current === null
        ? `No settings that were tried meet the objectives under any load. Nearest: ${nearest(trials)}.`
        : `Nothing else meets the objectives each time it is measured. As they are, the settings give ${rate(current)} at ${loadText(plan.loadKind, current.load)}.`;
    return { outcome: current === null ? 'nothing_meets' : 'kept', current, best: null, gain: null, says };
  }
  const gain = current === null ? null : best.goodput.mean / current.goodput.mean;
  if (current === null || gain === null) {
    return {
      outcome: 'advised',
      current,
      best,
      gain,
      says: `As they are, the settings miss the objectives. With ${settingsText(best.settings)} they are met: ${rate(best)} at ${loadText(plan.loadKind, best.load)}.`,
    };
  }
  // Surely better: by more than a little, and beyond what the runs differ among themselves.
  const surely = gain >= LEAST_GAIN && Math.min(...best.goodput.runs) > Math.max(...current.goodput.runs);
  if (!surely) {
    return {
      outcome: 'kept',
      current,
      best,
      gain,
      says: `The settings may stay: ${rate(current)} at ${loadText(plan.loadKind, current.load)}; the best others found give ${rate(best)}, which is no sure gain.`,
    };
  }
  return {
    outcome: 'advised',
    current,
    best,
    gain,
    says: `${settingsText(best.settings)} give ${rate(best)} at ${loadText(plan.loadKind, best.load)}, ${((gain - 1) * 100).toFixed(0)} percent more than as they are (${rate(current)} at ${loadText(plan.loadKind, current.load)}), and every objective is met.`,
  };
}

const rate = ({ goodput: { mean, low, high } }: TunePick): string =>
  `${mean.toPrecision(3)} good requests a second${low === null || high === null ? '' : ` (95 percent: ${Math.max(0, low).toPrecision(3)} to ${high.toPrecision(3)})`}`;

export function settingsText({ max_batch_tokens, max_sequences, step_ms }: TuneSettings): string {
  return `max_batch_tokens ${max_batch_tokens}, max_sequences ${max_sequences}, step_ms ${step_ms}`;
}

export function loadText(kind: TunePlan['loadKind'], load: number): string {
  return kind === 'concurrency'
    ? `${load} request${load === 1 ? '' : 's'} at once`
    : kind === 'rate'
      ? `${load} request${load === 1 ? '' : 's'} a second`
      : `${load} times the trace's speed`;
}

function nearest(trials: readonly TuneTrial[]): string {
  const worst = (trial: TuneTrial): number =>
    Math.max(...trial.verdicts.map(({ value, limit }) => (value === null ? Infinity : value / Math.max(1e-9, limit))));
  const [trial] = [...trials].sort((a, b) => worst(a) - worst(b));
  if (trial === undefined) return 'nothing was measured';
  return `${settingsText(trial.settings)} (${trial.verdicts.map(({ name, value }) => `${name} ${value === null ? 'not measured' : value < 1 ? value.toPrecision(2) : Math.round(value)}`).join(', ')})`;
}
