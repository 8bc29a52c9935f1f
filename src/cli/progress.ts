// Progress of a long operation: a bar in a terminal, otherwise a line every few seconds.

import { performance } from 'node:perf_hooks';
import { showBytes } from '../config/kinds.js';

const REDRAW_MS = 100;
const LINE_MS = 10_000;
/** Time window over which the speed is averaged. */
const WINDOW_MS = 10_000;
const BAR = 24;

/** Message shown when a download is retried. */
export const retryLine = (what: string, why: string, waitMs: number): string =>
  `${what}: ${why}; retrying in ${Math.ceil(waitMs / 1000)} s`;

export interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export class Progress {
  #drawnAt = -Infinity;
  #isDrawn = false;
  readonly #seen: { at: number; bytes: number }[] = [];
  #latest = { at: 0, bytes: 0 };

  constructor(
    private readonly out: ProgressOutput,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Reports that `bytes` of `total` are done. Redraws at a limited rate. */
  at(label: string, bytes: number, total: number, note = ''): void {
    const now = this.now();
    this.#note(now, bytes);
    const isEnd = bytes >= total;
    if (!isEnd && now - this.#drawnAt < (this.out.isTTY === true ? REDRAW_MS : LINE_MS)) return;
    this.#drawnAt = now;
    const share = total === 0 ? 1 : Math.min(1, bytes / total);
    const speed = this.#speed();
    const left = speed > 0 && !isEnd ? `  ${clock((total - bytes) / speed)} left` : '';
    const facts = `${String(Math.floor(share * 100)).padStart(3)} %  ${showBytes(bytes)} of ${showBytes(total)}${speed > 0 ? `  ${showBytes(speed)}/s` : ''}${left}${note === '' ? '' : `  ${note}`}`;
    if (this.out.isTTY !== true) {
      this.out.write(`${label}  ${facts.trim()}\n`);
      return;
    }
    const filled = Math.round(share * BAR);
    const line = `${label}  [${'='.repeat(filled)}${' '.repeat(BAR - filled)}] ${facts}`;
    this.out.write(`\r\u001b[K${line.slice(0, Math.max(20, (this.out.columns ?? 80) - 1))}`);
    this.#isDrawn = true;
  }

  /** Ends the progress line, so that the next output starts on its own line. */
  end(): void {
    if (this.#isDrawn) this.out.write('\n');
    this.#isDrawn = false;
    this.#seen.length = 0;
    this.#drawnAt = -Infinity;
  }

  #note(now: number, bytes: number): void {
    const last = this.#seen.at(-1);
    if (last !== undefined && bytes < last.bytes) this.#seen.length = 0; // the download restarted
    this.#latest = { at: now, bytes };
    if (this.#seen.length > 0 && now - (this.#seen.at(-1) as { at: number }).at < REDRAW_MS) return;
    this.#seen.push(this.#latest);
    while (this.#seen.length > 2 && now - (this.#seen[0] as { at: number }).at > WINDOW_MS) this.#seen.shift();
  }

  /** Bytes per second. */
  #speed(): number {
    const first = this.#seen[0];
    const last = this.#latest;
    if (first === undefined || last.at - first.at < REDRAW_MS) return 0;
    return Math.max(0, ((last.bytes - first.bytes) * 1000) / (last.at - first.at));
  }
}

function clock(seconds: number): string {
  const whole = Math.min(359_999, Math.ceil(seconds));
  const two = (value: number): string => String(value).padStart(2, '0');
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
