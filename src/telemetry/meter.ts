// Follows one generation request and puts its times into the histograms.

import { performance } from 'node:perf_hooks';
import type { BucketCounts } from './histogram-counts.js';
import type { Instruments } from './instruments.js';
import type { LatencyCounter, LiveCounts } from './live-counts.js';
import type { CancelStage, GenerationLabels, GenerationMeter } from './types.js';

export class Meter implements GenerationMeter {
  private readonly labels: { model: string; endpoint: string };
  private readonly latencies: LatencyCounter;
  private readonly receivedAt: number;
  private remaining: number;                    // choices that have not ended
  private isStarted = false;                    // out of the queue
  private sawPrefill = false;
  private readonly lastTokenAt: number[];       // per choice; 0: no token yet
  private sawToken = false;
  private gaps: BucketCounts | null = null;     // between tokens, once there are two
  private over = false;

  constructor(labels: GenerationLabels, private readonly instruments: Instruments, live: LiveCounts) {
    this.latencies = live.latencies(labels.model);
    this.labels = { model: labels.model, endpoint: labels.endpoint };
    this.receivedAt = labels.receivedAt;
    this.remaining = labels.choices;
    this.lastTokenAt = new Array<number>(labels.choices).fill(0);
  }

  started(event: { promptTokens: number; cachedTokens: number; queueMs: number }): void {
    this.isStarted = true;
    this.instruments.queue.observe(this.labels, event.queueMs / 1000);
    this.instruments.promptTokens.observe(this.labels, event.promptTokens);
    this.instruments.cachedTokens.observe(this.labels, event.cachedTokens);
  }

  token(count: number, choice = 0): void {
    if (count <= 0 || this.over) return;
    const now = performance.now();
    if (!this.sawToken) {
      this.sawToken = true;
      this.instruments.ttft.observe(this.labels, (now - this.receivedAt) / 1000);
      this.latencies.ttft(now - this.receivedAt);
    }
    const before = this.lastTokenAt[choice] ?? 0;
    if (before > 0) {
      // Text held back arrives as several tokens at once: each took its share of the time.
      const each = (now - before) / count;
      (this.gaps ??= this.instruments.itl.of(this.labels)).observe(each / 1000, count);
      this.latencies.itl(each, count);
    }
    this.lastTokenAt[choice] = now;
  }

  finished(event: Parameters<GenerationMeter['finished']>[0]): void {
    if (this.over) return;
    if (event.timings !== undefined && !this.sawPrefill) {
      this.sawPrefill = true;   // choices share one prefill
      this.instruments.prefill.observe(this.labels, event.timings.prefillMs / 1000);
    }
    this.instruments.completionTokens.observe(this.labels, event.completionTokens);
    this.instruments.finished.inc({ ...this.labels, reason: event.reason });
    if (--this.remaining > 0) return;
    this.over = true;
    this.instruments.e2e.observe(this.labels, (performance.now() - this.receivedAt) / 1000);
  }

  failed(code: string): void {
    if (this.over) return;
    this.over = true;
    this.instruments.failures.inc({ ...this.labels, code });
  }

  cancelled(stage?: CancelStage): void {
    if (this.over) return;
    this.over = true;
    const seen = !this.isStarted ? 'queue' : this.sawToken ? 'decode' : 'prefill';
    this.instruments.cancels.inc({ ...this.labels, stage: stage ?? seen });
  }
}
