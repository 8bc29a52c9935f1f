// The order in which the events of one answer may come: nothing after a choice's end, one open call at a
// time, every call opened, closed and numbered in turn. A wrong order is a fault of this server, so it ends
// the answer as one instead of leaving the client with pieces that do not fit together. Pure.
import type { GenerationEvent } from '../../generation/types.js';

/** Events that belong to one choice. */
export type ChoiceEvent = Exclude<GenerationEvent, { type: 'started' | 'failed' | 'prompt' | 'tokens' }>;

const enum Stage {
  Silent,
  Open,
  InCall,
  Finished,
}

export class EventOrder {
  readonly #stages: Stage[];
  readonly #calls: number[]; // calls opened so far

  constructor(n: number) {
    this.#stages = new Array<Stage>(n).fill(Stage.Silent);
    this.#calls = new Array<number>(n).fill(0);
  }

  /** True if the event is the first of its choice. Throws if it may not come now. */
  take(event: ChoiceEvent): boolean {
    const { choice } = event;
    const stage = this.#stages[choice];
    const calls = this.#calls[choice];
    if (stage === undefined || calls === undefined || stage === Stage.Finished) throw wrong(event, stage, calls);
    switch (event.type) {
      case 'text':
        if (stage === Stage.InCall) throw wrong(event, stage, calls);
        if (stage === Stage.Silent) this.#stages[choice] = Stage.Open;
        break;
      case 'call_started':
        if (stage === Stage.InCall || event.index !== calls) throw wrong(event, stage, calls);
        this.#calls[choice] = calls + 1;
        this.#stages[choice] = Stage.InCall;
        break;
      case 'call_arguments':
        if (stage !== Stage.InCall || event.index !== calls - 1) throw wrong(event, stage, calls);
        break;
      case 'call_finished':
        if (stage !== Stage.InCall || event.index !== calls - 1) throw wrong(event, stage, calls);
        this.#stages[choice] = Stage.Open;
        break;
      case 'finished':
        if (stage === Stage.InCall) throw wrong(event, stage, calls);
        this.#stages[choice] = Stage.Finished;
    }
    return stage === Stage.Silent;
  }

  /** The answer is over. Throws if a choice has not ended. */
  complete(): void {
    const open = this.#stages.findIndex((stage) => stage !== Stage.Finished);
    if (open !== -1) throw new Error(`the answer is over, but choice ${open} is not`);
  }
}

const STAGES = ['before its first event', 'outside a call', 'within a call', 'after its end'] as const;

function wrong(event: ChoiceEvent, stage: Stage | undefined, calls: number | undefined): Error {
  const index = 'index' in event ? ` ${event.index}` : '';
  const where = stage === undefined ? 'that was not asked for' : `${STAGES[stage]}, with ${calls} calls opened`;
  return new Error(`${event.type}${index} of choice ${event.choice} ${where}`);
}
