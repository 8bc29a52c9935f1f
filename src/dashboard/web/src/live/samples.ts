// Stores the samples for the live view. Accepts the stream's `history` and `sample` events, and returns columns of
// numbers. Does not need the DOM.

import type { EngineSample, LiveSample } from '../../../../shared/wire/live.js';
import type { ServerEvent } from './event-reader.js';
import { Ring } from './ring.js';

/** Number of seconds shown. There is one sample per second. */
export const WINDOW_S = 300;
/** If two samples are further apart than this, the chart shows a gap. */
const GAP_S = 2.5;

export class Samples {
  readonly #ring: Ring<LiveSample>;
  #latestMs = -Infinity;

  constructor(
    capacity = WINDOW_S,
    private readonly gapS = GAP_S,
  ) {
    this.#ring = new Ring(capacity);
  }

  /** The recorded samples. Each of them covers `stepS` seconds. */
  static of(samples: readonly LiveSample[], stepS: number): Samples {
    const all = new Samples(Math.max(1, samples.length), 1.5 * stepS);
    for (const sample of samples) all.#add(sample);
    return all;
  }

  /** Returns a copy that later events do not affect. */
  copy(): Samples {
    const copied = new Samples(this.#ring.capacity, this.gapS);
    for (let at = 0; at < this.#ring.length; at++) copied.#add(this.#ring.at(at) as LiveSample);
    return copied;
  }

  get latest(): LiveSample | undefined {
    return this.#ring.at(-1);
  }
  get length(): number {
    return this.#ring.length;
  }

  /**
   * Returns false if the event contained nothing new. After a reconnect, the server sends the history again; only the
   * missed samples are added.
   */
  receive({ event, data }: ServerEvent): boolean {
    if (event !== 'history' && event !== 'sample') return false;
    const parsed = JSON.parse(data) as LiveSample | LiveSample[];
    let isNew = false;
    for (const sample of Array.isArray(parsed) ? parsed : [parsed]) isNew = this.#add(sample) || isNew;
    return isNew;
  }

  #add(sample: LiveSample): boolean {
    const ms = Date.parse(sample.at);
    if (!(ms > this.#latestMs)) return false;
    this.#latestMs = ms;
    this.#ring.push(sample);
    return true;
  }

  /** Engines, identified by their first names, in the order of the latest sample that lists any. */
  engines(): EngineSample[] {
    for (let at = this.#ring.length - 1; at >= 0; at--) {
      const engines = this.#ring.at(at)?.engines ?? [];
      if (engines.length > 0) return engines;
    }
    return [];
  }

  /**
   * Columns for a chart: seconds since the Unix epoch, then one column per series, with null where there is no value. A
   * time gap becomes a row of nulls, so that no line is drawn across it.
   */
  columns(series: readonly ((sample: LiveSample) => number | null)[]): [number[], ...(number | null)[][]] {
    const times: number[] = [];
    const columns = series.map((): (number | null)[] => []);
    let before = -Infinity;
    for (let at = 0; at < this.#ring.length; at++) {
      const sample = this.#ring.at(at) as LiveSample;
      const time = Date.parse(sample.at) / 1000;
      if (time - before > this.gapS && before !== -Infinity) {
        times.push(before + Math.min(1, this.gapS / 2));
        for (const column of columns) column.push(null);
      }
      before = time;
      times.push(time);
      series.forEach((of, index) => columns[index]!.push(of(sample)));
    }
    return [times, ...columns];
  }
}

/** A series for one engine: null in samples from before the engine was loaded. */
export function ofEngine(
  model: string,
  of: (engine: EngineSample) => number | null,
): (sample: LiveSample) => number | null {
  return (sample) => {
    const engine = sample.engines.find((one) => one.model === model);
    return engine === undefined ? null : of(engine);
  };
}
