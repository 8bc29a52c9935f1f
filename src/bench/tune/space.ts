// The search space: integers between bounds, on a logarithmic scale, with two significant digits. No side effects.

import type { Random } from '../../shared/random.js';

export interface Knob {
  readonly name: string;
  /** At least 1. */
  readonly min: number;
  readonly max: number;
}

export type Point = Readonly<Record<string, number>>;

/** Two significant digits above 100: 768 becomes 770. */
export function rounded(value: number): number {
  const size = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, value))) - 1);
  return Math.round(value / size) * size;
}

export class Space {
  constructor(readonly knobs: readonly Knob[]) {
    for (const { name, min, max } of knobs) {
      if (!(min >= 1 && max >= min && Number.isFinite(max)))
        throw new RangeError(`${name}: ${min} to ${max} is not a range.`);
    }
  }

  /** Maps a point to the unit cube. Values outside the space are clamped to its edge. */
  unit(point: Point): number[] {
    return this.knobs.map(({ name, min, max }) => {
      const value = Math.min(max, Math.max(min, point[name] ?? min));
      return max === min ? 0 : Math.log(value / min) / Math.log(max / min);
    });
  }

  /** The nearest point in the search space. */
  point(unit: readonly number[]): Point {
    return Object.fromEntries(
      this.knobs.map(({ name, min, max }, at) => {
        const exact = min * (max / min) ** Math.min(1, Math.max(0, unit[at] ?? 0));
        return [name, Math.min(max, Math.max(min, rounded(exact)))];
      }),
    );
  }

  key(point: Point): string {
    return this.knobs.map(({ name }) => point[name]).join(' ');
  }

  /**
   * `count` points that cover the space: each range is split into `count` equal intervals, and each interval is used
   * once (a Latin hypercube).
   */
  spread(count: number, random: Random): Point[] {
    const columns = this.knobs.map(() => {
      const parts = Array.from({ length: count }, (_, at) => (at + random()) / count);
      for (let at = count - 1; at > 0; at--) {
        const other = Math.floor(random() * (at + 1));
        [parts[at], parts[other]] = [parts[other] as number, parts[at] as number];
      }
      return parts;
    });
    return Array.from({ length: count }, (_, at) => this.point(columns.map((column) => column[at] as number)));
  }

  /** Yields every combination of `steps` values per setting. The values include both ends of each setting's range. */
  grid(steps: Readonly<Record<string, number>>): Point[] {
    let points: number[][] = [[]];
    for (const { name } of this.knobs) {
      const many = Math.max(1, steps[name] ?? 1);
      points = points.flatMap((point) =>
        Array.from({ length: many }, (_, at) => [...point, many === 1 ? 0.5 : at / (many - 1)]),
      );
    }
    const all = points.map((unit) => this.point(unit));
    return [...new Map(all.map((point) => [this.key(point), point])).values()];
  }
}
