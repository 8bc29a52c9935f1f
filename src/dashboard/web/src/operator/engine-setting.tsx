// One engine setting: a number field, and a slider with a labeled logarithmic scale that follows it.
import { useId } from 'react';
import type { ReactNode } from 'react';
import type { Tunable, TunableName } from '../../../../shared/wire/tunables.js';
import { Badge } from '../components/badge.js';
import { errorSentence } from '../components/field.js';
import { count, short } from '../format.js';
import { fromSlider, STEPS, ticksOf, toSlider } from './log-scale.js';

const LABELS: Record<TunableName, { label: string; unit: string }> = {
  max_batch_tokens: { label: 'Tokens per step', unit: 'tokens' },
  max_sequences: { label: 'Concurrent sequences', unit: 'sequences' },
  step_ms: { label: 'Step time target', unit: 'ms' },
  queue_max: { label: 'Queued requests', unit: 'requests' },
  queue_max_tokens: { label: 'Queued prompt tokens', unit: 'tokens' },
};

export const SETTING_NAMES = Object.keys(LABELS) as TunableName[];

/** A typed number, with or without separators; NaN for other text. */
export const numberOf = (text: string): number => (text.trim() === '' ? NaN : Number(text.replaceAll(/[,_\s]/g, '')));

/** The error for an invalid number, without the setting's name; null if the server would accept it. */
export function problemOf(text: string, { min, max }: Tunable): string | null {
  const value = numberOf(text);
  return Number.isInteger(value) && value >= min && value <= max
    ? null
    : `must be a whole number from ${count(min)} to ${count(max)}.`;
}

export function EngineSetting({
  tunable,
  text,
  error,
  onChange,
}: {
  tunable: Tunable;
  /** The value as typed; undefined if unchanged. */
  text: string | undefined;
  /** The server's error. */
  error: string | null;
  onChange: (text: string | undefined) => void;
}): ReactNode {
  const { name, value, min, max, help, given, default: initial } = tunable;
  const { label, unit } = LABELS[name] ?? { label: name, unit: '' };
  const id = useId();
  const wanted = numberOf(text ?? String(value));
  // The slider follows the number field, and stops at its ends.
  const at = toSlider(Number.isFinite(wanted) ? wanted : value, min, max);
  const problem = error ?? (text === undefined ? null : problemOf(text, tunable));
  return (
    <div className="tunable">
      <div>
        <label className="tunable-name" htmlFor={id}>
          {label}
        </label>{' '}
        {value !== initial && <Badge tone="accent">changed</Badge>}
        <p className="hint" id={`${id}-help`}>
          {help}
        </p>
        <p className="hint tunable-default">
          {given === null ? 'Default' : 'Set at startup'} {count(initial)} {unit}
          {given !== null && (
            <>
              {' '}
              by <code>{given}</code>, so a change lasts until the next start
            </>
          )}
        </p>
      </div>
      <div className="tunable-set">
        <div className="scale">
          <input
            type="range"
            aria-label={`${label}, slider`}
            min={0}
            max={STEPS}
            step={1}
            value={at}
            aria-valuetext={`${count(Number.isFinite(wanted) ? wanted : value)} ${unit}`}
            onChange={(event) => onChange(String(fromSlider(Number(event.target.value), min, max)))}
          />
          <div className="scale-ticks" aria-hidden="true">
            {ticksOf(min, max).map((tick) => (
              <span key={tick.value} style={{ left: `${tick.at * 100}%` }}>
                {short(tick.value)}
              </span>
            ))}
          </div>
        </div>
        <span className="tunable-number">
          <input
            id={id}
            className="input mono"
            inputMode="numeric"
            autoComplete="off"
            value={text ?? String(value)}
            aria-describedby={`${id}-help${problem === null ? '' : ` ${id}-error`}`}
            aria-invalid={problem === null ? undefined : true}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Escape') onChange(undefined);
            }}
          />
          <span className="tunable-unit" aria-hidden="true">
            {unit}
          </span>
        </span>
        {problem !== null && (
          <p className="field-error" id={`${id}-error`} role="status">
            {errorSentence(label, problem)}
          </p>
        )}
      </div>
    </div>
  );
}
