// Schedules embedding inputs of several organizations on one engine. A call can contain thousands of texts, so the
// queue limits how many texts of each organization are in the engine at a time. It serves the organization with the
// fewest texts in the engine first. The calls of one organization take turns. Event-loop thread only.
import { shareOf } from '../shared/thread-count.js';

/**
 * Maximum number of texts per organization in the engine at a time. Large enough to fill the batches of any device.
 */
const kMostSubmitted = shareOf(64);

/**
 * Delay in ms before submission is retried when the engine's queue is full. Other threads share that queue and may have
 * filled it.
 */
const kRetryMs = 10;

/** An embedding call that still has texts to submit. */
export interface EmbedCall {
  readonly organization: number;
  /** Number of this call's texts in the engine. */
  readonly submitted: number;
  readonly hasMore: boolean;
  /** Submits the next text. Throws the errors of NativeChannel.submit. */
  submitNext(): void;
  fail(reason: unknown): void;
}

/**
 * One organization's waiting calls, in service order. Kept while the organization has waiting calls or submitted texts.
 */
interface Line {
  readonly calls: Set<EmbedCall>;
  submitted: number;
}

export class EmbedQueue {
  readonly #lines = new Map<number, Line>();
  #isServing = false;
  #retry: NodeJS.Timeout | undefined;

  /** `maxWaiting`: returns the maximum number of waiting calls per organization. */
  constructor(private readonly maxWaiting: () => number) {}

  /**
   * Adds a call and submits its texts as far as the limits allow. Fails the call with the code queue_full if its
   * organization has too many waiting calls.
   */
  add(call: EmbedCall): void {
    const line = this.#lines.get(call.organization) ?? { calls: new Set(), submitted: 0 };
    this.#lines.set(call.organization, line);
    line.calls.add(call);
    this.#serve();
    if (!line.calls.has(call) || call.submitted > 0 || line.calls.size <= this.maxWaiting()) return;
    line.calls.delete(call);
    const message = 'too many calls of this organization are waiting';
    call.fail(Object.assign(new Error(message), { code: 'queue_full' }));
  }

  /** Records that `texts` texts of the call have left the engine. `isOver`: the call submits no further texts. */
  ended(call: EmbedCall, texts: number, isOver: boolean): void {
    const line = this.#lines.get(call.organization);
    if (line === undefined) return;
    line.submitted -= texts;
    if (isOver) line.calls.delete(call);
    if (line.calls.size === 0 && line.submitted === 0) this.#lines.delete(call.organization);
    this.#serve();
  }

  /**
   * Submits texts until every organization has reached its limit or has no more texts, or the engine's queue is full.
   */
  #serve(): void {
    if (this.#isServing) return; // re-entered by ended(), when #submit() fails a call
    this.#isServing = true;
    clearTimeout(this.#retry);
    for (let next = this.#next(); next !== null; next = this.#next()) {
      if (this.#submit(next.line, next.call)) continue;
      this.#retry = setTimeout(() => this.#serve(), kRetryMs);
      break;
    }
    this.#isServing = false;
  }

  #next(): { line: Line; call: EmbedCall } | null {
    let best: Line | null = null;
    for (const line of this.#lines.values())
      if (line.calls.size > 0 && line.submitted < (best?.submitted ?? kMostSubmitted)) best = line;
    const [call] = best?.calls ?? [];
    return best === null || call === undefined ? null : { line: best, call };
  }

  /** Submits the next text of a call, or fails the call. Returns false if the engine's queue is full. */
  #submit(line: Line, call: EmbedCall): boolean {
    try {
      call.submitNext();
    } catch (error) {
      if ((error as { code?: unknown }).code === 'queue_full') return false;
      line.calls.delete(call);
      call.fail(error);
      return true;
    }
    line.submitted++;
    // The call moves to the end of its organization's line, and the organization to the end of #lines.
    line.calls.delete(call);
    if (call.hasMore) line.calls.add(call);
    this.#lines.delete(call.organization);
    this.#lines.set(call.organization, line);
    return true;
  }
}
