// Divides one engine's queue among the organizations that embed texts. The engine's queue is shared, and a call may have
// thousands of texts, so this queue submits a limited number of each organization's texts at a time. The organization
// with the fewest submitted texts goes first, and its calls take turns. Event-loop thread only.
import { shareOf } from '../shared/thread-count.js';

/** Maximum texts of one organization that the engine holds at a time. Enough to fill the steps of any device. */
const kMostSubmitted = shareOf(64);

/** Milliseconds until the next attempt if the engine's queue is full: other threads may have filled it. */
const kRetryMs = 10;

/** A call with texts that are not submitted yet. */
export interface EmbedCall {
  readonly organization: number;
  /** Texts of this call that the engine holds. */
  readonly submitted: number;
  readonly hasMore: boolean;
  /** Submits the next text. Throws like NativeChannel.submit. */
  submitNext(): void;
  fail(reason: unknown): void;
}

/** The waiting calls of one organization, the next one first. Kept while it has calls or submitted texts. */
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

  /** Adds a call. Fails it with the code queue_full if its organization has too many waiting calls. */
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

  /** The engine no longer holds `texts` texts of the call. `isOver`: the call submits no more. */
  ended(call: EmbedCall, texts: number, isOver: boolean): void {
    const line = this.#lines.get(call.organization);
    if (line === undefined) return;
    line.submitted -= texts;
    if (isOver) line.calls.delete(call);
    if (line.calls.size === 0 && line.submitted === 0) this.#lines.delete(call.organization);
    this.#serve();
  }

  /** Submits texts until no organization may submit more or the engine's queue is full. */
  #serve(): void {
    if (this.#isServing) return; // called by a call that #submit() failed
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

  /** Returns false if the engine's queue is full. */
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
    // The call and its organization move to the end.
    line.calls.delete(call);
    if (call.hasMore) line.calls.add(call);
    this.#lines.delete(call.organization);
    this.#lines.set(call.organization, line);
    return true;
  }
}
