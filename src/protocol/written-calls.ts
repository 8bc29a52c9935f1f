// Gives the calls of one generation their IDs, under which their tokens are recorded when a choice ends. Event-loop
// thread only.
import type { Replays } from '../generation/replay/replays.js';
import type { GenerationEvent } from '../generation/types.js';
import { newCallKey } from '../shared/ids.js';
import type { AdmittedGeneration } from './admit.js';

type CallStarted = Extract<GenerationEvent, { type: 'call_started' }>;
type Written = Extract<GenerationEvent, { type: 'written' }>;

export class WrittenCalls {
  readonly #keys = new Map<number, string[]>(); // of each choice, by the index of the call

  constructor(
    private readonly admitted: Pick<AdmittedGeneration, 'caller' | 'storedAs'>,
    private readonly replays: Pick<Replays, 'record'>,
  ) {}

  /** Returns the event with the random part of the call's ID. */
  named(event: CallStarted): CallStarted {
    const key = newCallKey();
    const keys = this.#keys.get(event.choice);
    if (keys === undefined) this.#keys.set(event.choice, [key]);
    else keys.push(key);
    return { ...event, key };
  }

  record({ choice, model, items }: Written): void {
    const keys = this.#keys.get(choice) ?? [];
    const { caller, storedAs } = this.admitted;
    this.replays.record({
      organizationId: caller.identity.organizationId,
      model,
      items,
      callId: (index) => keys[index],
      responseId: storedAs,
    });
  }
}
