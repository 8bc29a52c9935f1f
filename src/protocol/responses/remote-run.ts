// Serves the events of a background response that is running on another thread or in another process, from its log. The
// thread that runs it sends a notification after writing events. The log is also polled once a second in case a
// notification is lost. Event-loop thread only.
import { isUnfinished, type ResponseStore } from '../../storage/response-store.js';
import type { StoredEvent } from '../../shared/stored-event.js';
import type { ThreadBus } from '../../shared/bus.js';
import { endOf, endOfStored, isTerminal, replayEvents, terminalEvents, unbroken } from './replay.js';
import type { ResponseResource } from './resource.js';
import type { EventSource } from './stored-stream.js';

const LOOK_MS = 1_000;
/**
 * The final state is stored before the last events are logged. If the last events are still missing after this many
 * polls, they are assumed lost.
 */
const PATIENCE = 3;

export class RemoteRun implements EventSource {
  ended = false;
  #looks = 0;

  private constructor(
    private readonly responses: ResponseStore,
    private readonly bus: ThreadBus,
    private readonly organizationId: string,
    private readonly id: string,
    public end: readonly StoredEvent[],
  ) {}

  static async open(responses: ResponseStore, bus: ThreadBus, organizationId: string, id: string): Promise<RemoteRun> {
    // If the response has ended, its last events are read now, because the response may be deleted while its events are
    // being sent.
    return new RemoteRun(responses, bus, organizationId, id, await endOf(responses, id));
  }

  async after(after: number, atLeast: number): Promise<readonly StoredEvent[] | null> {
    const found = await this.responses.events(this.id, after, atLeast);
    if (found === null) return this.#withoutLog(after);
    const events = unbroken(found, after);
    if (events.length === 0 && found.length > 0) {
      if (this.end.length === 0) this.end = await endOf(this.responses, this.id);
      const end = this.end.filter(({ sequence }) => sequence > after);
      this.ended ||= end.length > 0;
      if (this.ended) return end;
    }
    if (this.ended) return events;
    if (events.length > 0) {
      this.#looks = 0;
      this.ended = events.some(isTerminal);
      return events;
    }
    // A client that has (or claims to have) received the last event is not sent the end again.
    const last = await this.responses.lastEvent(this.id);
    if (last !== null && isTerminal(last)) {
      this.ended = last.sequence <= after; // otherwise, it was logged just after the log was read
      return last.sequence <= after ? events : this.after(after, atLeast);
    }
    if (this.#looks < PATIENCE) return events;
    const record = await this.responses.get(this.organizationId, this.id);
    if (record === null) return null;
    if (isUnfinished(record.status)) return events;
    this.ended = true;
    const resource = record.resource as unknown as ResponseResource;
    // No client has been sent any other events, so the numbers are free.
    if (last === null) return replayEvents(resource, 'openai').filter(({ sequence }) => sequence > after);
    return last.sequence < after ? events : terminalEvents(resource, last.sequence + 1);
  }

  /**
   * Called when the response was deleted or its log has expired. Returns null if only the events in `end` are
   * available.
   */
  async #withoutLog(after: number): Promise<readonly StoredEvent[] | null> {
    if (this.ended) return [];
    if (this.end.length > 0) return null;
    const end = await endOfStored(this.responses, this.organizationId, this.id, after);
    this.ended = end !== null;
    // The response was deleted. Its last events were published before that and may arrive shortly.
    return end ?? (this.#looks === 0 ? [] : null);
  }

  watch(wake: () => void): () => void {
    const timer = setInterval(() => {
      this.responses
        .head(this.organizationId, this.id)
        .then((head) => {
          if (head === null || !isUnfinished(head.status)) this.#looks++;
        })
        .finally(wake)
        .catch(() => undefined); // the watcher reads next, gets the same error and reports it
    }, LOOK_MS);
    timer.unref();
    const stop = this.bus.on('response.logged', ({ id, ended, end = [] }) => {
      if (id !== this.id) return;
      if (ended) this.#looks = PATIENCE; // events that are not in the log by now are lost
      if (end.length > 0) this.end = end;
      wake();
    });
    return () => {
      clearInterval(timer);
      stop();
    };
  }
}
