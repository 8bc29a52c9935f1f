// Numbers the events of one response and serializes them. If there is no consumer, nothing is serialized.
import { stringifyExact } from '../../shared/exact-json.js';
import type { StoredEvent } from '../../shared/stored-event.js';

/** One event as sent: `data` is its JSON; `type` is also the name of the server-sent event. */
export type WireEvent = StoredEvent;

export class EventWriter {
  #next = 0;

  constructor(private readonly take: ((event: WireEvent) => void) | null) {}

  get streams(): boolean {
    return this.take !== null;
  }

  /** Writes an event with these fields, in addition to type and sequence_number. */
  write(type: string, fields: object): void {
    if (this.take !== null) this.writeRaw(type, stringifyExact(fields).slice(1));
  }

  /** Like write(), but takes fields that are already serialized: `"a":1,"b":2}`. The hot path for deltas. */
  writeRaw(type: string, fields: string): void {
    if (this.take === null) return;
    const sequence = this.#next++;
    this.take({ sequence, type, data: `{"type":"${type}","sequence_number":${sequence},${fields}` });
  }
}
