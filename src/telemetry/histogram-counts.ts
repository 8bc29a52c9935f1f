// A histogram that is counted in per token: what prom-client's own does for one value (labels checked, hashed and
// looked up) costs more than all else that telemetry does for a token. Told to Prometheus in the same form.
// Event-loop thread only.

/** What one set of labels has counted; whoever counts keeps it. Counting allocates nothing. */
export class BucketCounts {
  readonly #counts: Float64Array;                // by bucket, the last one without a bound
  #sum = 0;

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** `count` times the same value. */
  observe(value: number, count = 1): void {
    const { bounds } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + count;
    this.#sum += value * count;
  }

  /** As a scrape shows it: how many values are at most each bound, their sum and their number. */
  series(): { upTo: number[]; sum: number; count: number } {
    let total = 0;
    const upTo = Array.from(this.#counts, (count) => (total += count));
    return { upTo, sum: this.#sum, count: total };
  }
}

export class HistogramCounts<L extends string> {
  /** As bounded as the labels. */
  readonly #series = new Map<string, { labels: Readonly<Record<L, string>>; counts: BucketCounts }>();

  /** `bounds` rise. */
  constructor(
    private readonly name: string, private readonly help: string, private readonly bounds: readonly number[],
    private readonly labelNames: readonly L[],
  ) {}

  of(labels: Readonly<Record<L, string>>): BucketCounts {
    const key = JSON.stringify(this.labelNames.map((name) => labels[name]));
    let series = this.#series.get(key);
    if (series === undefined) this.#series.set(key, (series = { labels, counts: new BucketCounts(this.bounds) }));
    return series.counts;
  }

  /** One of a registry's metrics as JSON. */
  json(): object {
    const values = [...this.#series.values()].flatMap(({ labels, counts }) => {
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
