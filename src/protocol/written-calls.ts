// Assigns IDs to the tool calls of one generation. When a choice ends, the token IDs of its calls are recorded under
// these IDs. Event-loop thread only.
import type { Replays } from '../generation/replay/replays.js';
import type { GenerationEvent } from '../generation/types.js';
import { newCallKey } from '../shared/ids.js';
import type { AdmittedGeneration } from './admit.js';

type CallStarted = Extract<GenerationEvent, { type: 'call_started' }>;
type Written = Extract<GenerationEvent, { type: 'written' }>;

export class WrittenCalls {
  readonly #keys = new Map<number, string[]>(); // random parts of call IDs; by choice, then by index of the call

  constructor(
    private readonly admitted: Pick<AdmittedGeneration, 'caller' | 'storedAs'>,
    private readonly replays: Pick<Replays, 'record'>,
  ) {}

  /** Assigns an ID to the call and returns the event with the random part of the ID. */
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
