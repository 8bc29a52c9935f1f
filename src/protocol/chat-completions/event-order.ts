// Checks the order of a response's events: no event follows a choice's end, only one tool call is open at a time, and
// every call is opened, closed and numbered in sequence. A wrong order is a bug in the server. It ends the response
// with an error, so that the client never receives inconsistent chunks. No side effects.
import type { GenerationEvent, HostedEvent } from '../../generation/types.js';

/** Events that belong to a single choice. */
export type ChoiceEvent = Exclude<GenerationEvent, HostedEvent | { type: 'started' | 'failed' | 'prompt' | 'tokens' }>;

const enum Stage {
  Silent,
  Open,
  InCall,
  Finished,
}

export class EventOrder {
  readonly #stages: Stage[];
  readonly #calls: number[]; // number of calls opened so far, by choice

  constructor(n: number) {
    this.#stages = new Array<Stage>(n).fill(Stage.Silent);
    this.#calls = new Array<number>(n).fill(0);
  }

  /** Returns true if the event is the first one for its choice. Throws if the event is out of order. */
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

  /** Must be called at the end of the response. Throws if a choice is unfinished. */
  complete(): void {
    const open = this.#stages.findIndex((stage) => stage !== Stage.Finished);
    if (open !== -1) throw new Error(`the response ended, but choice ${open} did not`);
  }
}

const STAGES = ['before its first event', 'outside a tool call', 'within a tool call', 'after its end'] as const;

function wrong(event: ChoiceEvent, stage: Stage | undefined, calls: number | undefined): Error {
  const index = 'index' in event ? ` ${event.index}` : '';
  const where = stage === undefined ? 'that was not requested' : `${STAGES[stage]}, with ${calls} calls opened`;
  return new Error(`${event.type}${index} of choice ${event.choice} ${where}`);
}
