// Plots every measurement of one or two runs as goodput against time to first token, with the Pareto front. The table
// of measurements lists the same data.
import { useEffect, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import type { TuneRun } from '../../../../shared/wire/tuning.js';
import { duration } from '../format.js';
import { figure, paretoFrontOf, linearAxis, loadText, logAxis, settingsText, spotsOf } from './tuning-view.js';
import type { Spot } from './tuning-view.js';

const HEIGHT = 300,
  LEFT = 52,
  RIGHT = 28,
  TOP = 24,
  BOTTOM = 40;

export function FrontChart({ runs }: { runs: readonly { label: string; run: TuneRun }[] }): ReactNode {
  const [host, width] = useWidth();
  const [shown, setShown] = useState<{ run: TuneRun; spot: Spot } | null>(null);
  const all = runs.map(({ label, run }) => ({ label, run, spots: spotsOf(run.trials) }));
  const spots = all.flatMap((one) => one.spots);
  if (spots.length === 0)
    return (
      <p className="hint" ref={host}>
        No measurement is complete yet.
      </p>
    );
  const [xs, ys] = [logAxis(spots.map(({ x }) => x)), linearAxis(spots.map(({ y }) => y))];
  const across = (x: number): number =>
    LEFT + (Math.log(x / xs.min) / Math.log(xs.max / xs.min)) * (width - LEFT - RIGHT);
  const up = (y: number): number => HEIGHT - BOTTOM - (y / ys.max) * (HEIGHT - TOP - BOTTOM);
  return (
    <figure className="front-chart" ref={host}>
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        role="img"
        aria-label={`Goodput against the 99th percentile of time to first token: ${spots.length} measurements`}
      >
        {ys.ticks.map((tick) => (
          <g key={`y${tick}`}>
            <line className="front-grid" x1={LEFT} x2={width - RIGHT} y1={up(tick)} y2={up(tick)} />
            <text className="front-tick" x={LEFT - 6} y={up(tick) + 4} textAnchor="end">
              {figure(tick)}
            </text>
          </g>
        ))}
        {xs.ticks.map((tick) => (
          <g key={`x${tick}`}>
            <line className="front-grid" x1={across(tick)} x2={across(tick)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text className="front-tick" x={across(tick)} y={HEIGHT - BOTTOM + 16} textAnchor="middle">
              {duration(tick)}
            </text>
          </g>
        ))}
        <text className="front-tick" x={width - RIGHT} y={HEIGHT - 6} textAnchor="end">
          Time to first token, 99th percentile
        </text>
        <text className="front-tick" x={LEFT} y={12}>
          Good requests per second
        </text>
        {all.map(({ run, spots: own }, at) => (
          <g key={run.id} className={`front-run-${at}`}>
            <polyline
              className="front-line"
              points={paretoFrontOf(own)
                .map(({ x, y }) => `${across(x)},${up(y)}`)
                .join(' ')}
            />
            {own.map((spot) => (
              <circle
                key={spot.trial.number}
                className={spot.trial.met ? 'front-met' : 'front-missed'}
                cx={across(spot.x)}
                cy={up(spot.y)}
                r={spot.trial.front ? 5 : 3.5}
                onMouseEnter={() => setShown({ run, spot })}
                onMouseLeave={() => setShown(null)}
              >
                <title>{pointText(run, spot)}</title>
              </circle>
            ))}
          </g>
        ))}
      </svg>
      <figcaption className="hint">
        {shown === null ? (
          <>
            Goodput (requests per second that met every objective) against latency. Filled points mark measurements that
            met the objectives. Lines connect the measurements that no other measurement beats in both.
            {all.length > 1 &&
              all.map(({ label, run }, at) => (
                <span key={run.id} className="front-key chart-key">
                  <span className={`chart-swatch front-run-${at}`} />
                  {label}
                </span>
              ))}
          </>
        ) : (
          pointText(shown.run, shown.spot)
        )}
      </figcaption>
    </figure>
  );
}

/**
 * The element's width in pixels. The chart is drawn at this width, so that its text has the same size as other text.
 */
function useWidth(): [(element: HTMLElement | null) => void, number] {
  const [width, setWidth] = useState(720);
  const observer = useRef<ResizeObserver | null>(null);
  useEffect(() => () => observer.current?.disconnect(), []);
  const [host] = useState(() => (element: HTMLElement | null): void => {
    observer.current?.disconnect();
    if (element === null) return;
    observer.current = new ResizeObserver(() => setWidth(Math.max(280, element.clientWidth)));
    observer.current.observe(element);
  });
  return [host, width];
}

function pointText({ load_kind: kind }: TuneRun, { trial, x, y }: Spot): string {
  return `${trial.number}: ${figure(y)} good requests/s, time to first token ${duration(x)}; ${settingsText(trial.settings)}, ${loadText(kind, trial.load)}${trial.met ? '' : '; objectives missed'}`;
}
