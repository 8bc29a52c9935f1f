// Records the times of one generation request in the histograms.

import type { BucketCounts } from './histogram-counts.js';
import type { Instruments } from './instruments.js';
import type { LatencyCounter, LiveCounts } from './live-counts.js';
import type { CancelStage, GenerationMeter } from './types.js';

/**
 * Number of tokens over which the live view averages the time per output token. Long enough to cover several engine
 * steps, even if each step emits several tokens because drafts were accepted.
 */
const STRETCH_TOKENS = 16;

export class Meter implements GenerationMeter {
  private readonly latencies: LatencyCounter;
  private stretchMs = 0;
  private stretchTokens = 0;
  private gaps: BucketCounts | null = null; // inter-token latencies; set after the second token

  constructor(
    private readonly labels: { model: string; endpoint: string },
    private readonly instruments: Instruments,
    live: LiveCounts,
  ) {
    this.latencies = live.latencies(labels.model);
  }

  started({ promptTokens, cachedTokens, queueMs, towerMs }: Parameters<GenerationMeter['started']>[0]): void {
    this.instruments.queue.observe(this.labels, queueMs / 1000);
    if (towerMs !== undefined) this.instruments.visionEncoder.observe(this.labels, towerMs / 1000);
    this.instruments.promptTokens.observe(this.labels, promptTokens);
    this.instruments.cachedTokens.observe(this.labels, cachedTokens);
  }

  prefilled(ms: number): void {
    this.instruments.prefill.observe(this.labels, ms / 1000);
  }

  firstToken(ms: number): void {
    this.instruments.ttft.observe(this.labels, ms / 1000);
    this.latencies.ttft(ms);
  }

  laterTokens(count: number, ms: number): void {
    // Held-back text arrives as several tokens together, so the time is divided evenly among them.
    const each = ms / count;
    (this.gaps ??= this.instruments.itl.of(this.labels)).observe(each / 1000, count);
    this.latencies.itl(each, count);
    this.stretchMs += ms;
    this.stretchTokens += count;
    if (this.stretchTokens >= STRETCH_TOKENS) this.endStretch();
  }

  choiceFinished({ completionTokens, reason, timings }: Parameters<GenerationMeter['choiceFinished']>[0]): void {
    this.endStretch();
    this.instruments.decode.observe(this.labels, timings.decodeMs / 1000);
    if (completionTokens > 1)
      this.instruments.tpot.observe(this.labels, timings.decodeMs / 1000 / (completionTokens - 1));
    this.instruments.completionTokens.observe(this.labels, completionTokens);
    const { model, endpoint } = this.labels;
    this.instruments.finished.inc({ model, endpoint, reason });
  }

  completed(ms: number): void {
    this.instruments.e2e.observe(this.labels, ms / 1000);
    this.latencies.e2e(ms);
  }

  failed(code: string): void {
    const { model, endpoint } = this.labels;
    this.instruments.failures.inc({ model, endpoint, code });
  }

  cancelled(stage: CancelStage): void {
    const { model, endpoint } = this.labels;
    this.instruments.cancels.inc({ model, endpoint, stage });
  }

  private endStretch(): void {
    if (this.stretchTokens === 0) return;
    this.latencies.tpot(this.stretchMs / this.stretchTokens, this.stretchTokens);
    this.stretchMs = this.stretchTokens = 0;
  }
}
