// Histograms and counters for values that every request and token updates. prom-client's own classes validate, hash and
// look up the labels for each value, which would cost more than all other telemetry and allocate garbage. The exported
// form is the same. Event-loop thread only.

/** How a metric is presented to Prometheus and in the documentation. */
export interface MetricDeclaration {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
}

/** The buckets for one combination of labels. Callers keep the object; observing a value does not allocate memory. */
export class BucketCounts {
  readonly #counts: Float64Array; // by bucket; the last one has no upper bound
  #sum = 0;

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** Counts `value` as if it had been observed `count` times. */
  observe(value: number, count = 1): void {
    const { bounds } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + count;
    this.#sum += value * count;
  }

  /** The cumulative form required for a scrape: the number of values up to each bound, their sum and their count. */
  series(): { upTo: number[]; sum: number; count: number } {
    let total = 0;
    const upTo = Array.from(this.#counts, (count) => (total += count));
    return { upTo, sum: this.#sum, count: total };
  }
}

/** The count for one set of labels. Callers keep the object and update it directly. */
export class Count {
  total = 0;
}

type Level = Map<string, unknown>; // nested maps by label; the last level holds the counts

/**
 * Counts by label values, in the order of the label names. The number of entries is bounded by the number of possible
 * label values. Looking up an existing entry does not allocate memory.
 */
class ByLabels<L extends string, T> {
  readonly #root: Level = new Map();
  readonly all: { readonly labels: Readonly<Record<L, string>>; readonly counts: T }[] = [];

  constructor(
    private readonly names: readonly L[],
    private readonly make: () => T,
  ) {}

  of(labels: Readonly<Record<L, string>>): T {
    const { names } = this;
    let level = this.#root;
    for (let i = 0; i < names.length - 1; i++) {
      const value = labels[names[i] as L];
      let next = level.get(value) as Level | undefined;
      if (next === undefined) level.set(value, (next = new Map()));
      level = next;
    }
    const last = names.length === 0 ? '' : labels[names[names.length - 1] as L];
    let counts = level.get(last) as T | undefined;
    if (counts === undefined) {
      level.set(last, (counts = this.make()));
      this.all.push({ labels: { ...labels }, counts });
    }
    return counts;
  }
}

export class CounterCounts<L extends string> {
  readonly #series: ByLabels<L, Count>;

  /** Use type `gauge` for values that can decrease. */
  constructor(
    private readonly name: string,
    private readonly help: string,
    private readonly labelNames: readonly L[],
    private readonly type: 'counter' | 'gauge' = 'counter',
  ) {
    this.#series = new ByLabels(labelNames, () => new Count());
  }

  get declaration(): MetricDeclaration {
    return { name: this.name, help: this.help, type: this.type, labels: this.labelNames };
  }

  of(labels: Readonly<Record<L, string>>): Count {
    return this.#series.of(labels);
  }

  inc(labels: Readonly<Record<L, string>>, by = 1): void {
    this.#series.of(labels).total += by;
  }

  /** The metric in prom-client's JSON form. */
  json(): object {
    return {
      name: this.name,
      help: this.help,
      type: this.type,
      values: this.#series.all.map(({ labels, counts }) => ({ labels, value: counts.total })),
      aggregator: 'sum',
    };
  }
}

export class HistogramCounts<L extends string> {
  readonly #series: ByLabels<L, BucketCounts>;

  /** `bounds` must be ascending. */
  constructor(
    private readonly name: string,
    private readonly help: string,
    private readonly bounds: readonly number[],
    private readonly labelNames: readonly L[],
  ) {
    this.#series = new ByLabels(labelNames, () => new BucketCounts(bounds));
  }

  get declaration(): MetricDeclaration {
    return { name: this.name, help: this.help, type: 'histogram', labels: this.labelNames };
  }

  of(labels: Readonly<Record<L, string>>): BucketCounts {
    return this.#series.of(labels);
  }

  observe(labels: Readonly<Record<L, string>>, value: number): void {
    this.#series.of(labels).observe(value);
  }

  /** The metric in prom-client's JSON form. */
  json(): object {
    const values = this.#series.all.flatMap(({ labels, counts }) => {
      const { upTo, sum, count } = counts.series();
      const bounds = upTo.map((value, bucket) => ({ labels: { le: this.bounds[bucket] ?? '+Inf', ...labels }, value }));
      return [
        ...bounds.map((bound) => ({ ...bound, metricName: `${this.name}_bucket` })),
        { labels, value: sum, metricName: `${this.name}_sum` },
        { labels, value: count, metricName: `${this.name}_count` },
      ];
    });
    return { name: this.name, help: this.help, type: 'histogram', values, aggregator: 'sum' };
  }
}
