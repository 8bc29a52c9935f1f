// Progress of a load test: in a terminal, one line that is redrawn; otherwise, a line every few seconds.

import type { LoadProgress } from '../bench/load/types.js';
import type { ProgressOutput } from './progress.js';

const LINE_MS = 10_000;
const BAR = 20;
const PHASES: Readonly<Record<LoadProgress['phase'], string>> = {
  warmup: 'warming up',
  measured: 'measuring',
  ending: 'ending',
};

export class BenchProgress {
  #saidAt = 0;
  #isDrawn = false;
  #before: LoadProgress | null = null;

  /** `label` names the run and appears at the start of each line. */
  constructor(
    private readonly out: ProgressOutput,
    private readonly label: string,
  ) {}

  at(progress: LoadProgress): void {
    const { elapsedMs, phase, answered, failed, running, outputTokens, done } = progress;
    if (this.out.isTTY !== true && elapsedMs - this.#saidAt < LINE_MS) return;
    const since = this.#before === null ? elapsedMs : elapsedMs - this.#before.elapsedMs;
    const tokens = outputTokens - (this.#before?.outputTokens ?? 0);
    if (this.out.isTTY !== true || since > 2000) this.#before = progress;
    const facts = [
      `${String(Math.floor(done * 100)).padStart(3)} %`,
      `${(elapsedMs / 1000).toFixed(0)} s`,
      `${answered} completed`,
      ...(failed > 0 ? [`${failed} failed`] : []),
      `${running} running`,
      ...(since > 0 && tokens > 0 ? [`${Math.round((tokens * 1000) / since)} tokens/s`] : []),
    ].join('  ');
    this.#saidAt = elapsedMs;
    if (this.out.isTTY !== true) {
      this.out.write(`${this.label}${PHASES[phase]}  ${facts.trim()}\n`);
      return;
    }
    const filled = Math.round(done * BAR);
    const line = `${this.label}${PHASES[phase]}  [${'='.repeat(filled)}${' '.repeat(BAR - filled)}] ${facts}`;
    this.out.write(`\r\u001b[K${line.slice(0, Math.max(20, (this.out.columns ?? 80) - 1))}`);
    this.#isDrawn = true;
  }

  /** Clears the progress line, so that the next output starts on its own line. */
  end(): void {
    if (this.#isDrawn) this.out.write('\r\u001b[K');
    this.#isDrawn = false;
  }
}
