// Records which stored responses clients know of, and checks the rules that apply to them. An acknowledged response can
// be read until it is deleted or expires, to the second. A finished response keeps its final state. No other
// organization sees it. An event number identifies exactly one event.
import type { ResponseStore } from '../../../src/storage/response-store.js';
import { LOG_S } from '../../../src/storage/response-size.js';
import type { SentEvent } from './sim-exchange.js';
import type { SimTime } from './sim-time.js';

export interface Resource {
  id: string;
  status: string;
  created_at: number;
  completed_at: number | null;
  incomplete_details: object | null;
  output: { content?: { text?: string }[] }[];
  usage: { input_tokens: number; output_tokens: number } | null;
}

export interface Known {
  readonly tag: number;
  readonly id: string;
  readonly organizationId: string;
  readonly createdAt: number;
  readonly stored: boolean;
  readonly background: boolean;
  readonly previous: Known | null;
  readonly input: string;
  /** The final state as JSON; null while no client has seen the response end. */
  ended: string | null;
  /** Earliest time at which the response may have ended, in seconds since 1970. */
  readonly seenAt: number;
  /** When the creating request was received, in microseconds. */
  readonly askedAt: number;
  deleteAsked: boolean;
  /** When a client first learned of the deletion, in microseconds; Infinity if no client has yet. */
  deletedAt: number;
  /** The log's events by sequence number. */
  readonly events: Map<number, string>;
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'incomplete', 'failed', 'cancelled']);
const TERMINAL: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.failed']);

export const isEnded = (status: string): boolean => ENDED.has(status);
export const outputOf = ({ output }: Resource): string[] =>
  output.map(({ content = [] }) => content.map(({ text = '' }) => text).join(''));

export class ResponsesWitness {
  readonly known: Known[] = [];
  readonly #byId = new Map<string, Known>();
  read = 0;

  constructor(
    private readonly retentionS: number,
    private readonly time: SimTime,
    private readonly violated: (what: string) => void,
  ) {}

  get now(): number {
    return this.time.wall / 1000;
  }

  get(id: string): Known | undefined {
    return this.#byId.get(id);
  }

  add(known: Omit<Known, 'ended' | 'deleteAsked' | 'deletedAt' | 'events'>, resource: Resource): Known {
    const before = this.#byId.get(known.id);
    if (before !== undefined) {
      this.violated(`two responses have the id ${known.id}`);
      return before;
    }
    const added: Known = { ...known, ended: null, deleteAsked: false, deletedAt: Infinity, events: new Map() };
    this.known.push(added);
    this.#byId.set(known.id, added);
    this.saw(added, resource);
    return added;
  }

  isExpired(known: Known): boolean {
    return known.createdAt + this.retentionS <= this.now;
  }
  expiresAt(known: Known): number {
    return known.createdAt + this.retentionS;
  }
  isLost(known: Known): boolean {
    return known.deleteAsked || this.isExpired(known) || !known.stored;
  }

  /** Checks a resource that a client received, and records its final state. */
  saw(known: Known, resource: Resource): void {
    const { id, status } = resource;
    if (id !== known.id) this.violated(`${known.id} was requested, but ${id} came`);
    if (resource.created_at !== known.createdAt)
      this.violated(`${id} was created at ${known.createdAt}, but is now returned with ${resource.created_at}`);
    const shown = JSON.stringify(resource);
    if (known.ended !== null && known.ended !== shown)
      this.violated(`${id} had ended as ${known.ended}, but is now ${shown}`);
    if (isEnded(status)) known.ended = shown;
  }

  /** A client requested the response and got a 404. */
  missed(known: Known, organizationId: string): void {
    if (organizationId === known.organizationId && !this.isLost(known))
      this.violated(
        `${known.id} is not found at ${this.now}; it was acknowledged, expires at ${this.expiresAt(known)}, and no client has deleted it`,
      );
  }

  /** A client received the response. `since`: when it was requested, in seconds. */
  found(known: Known, organizationId: string, since: number): void {
    if (organizationId !== known.organizationId)
      this.violated(`${known.id} of ${known.organizationId} is returned to ${organizationId}`);
    if (known.deletedAt <= this.time.now) this.violated(`${known.id} is returned although it was deleted`);
    this.#wasThere(known, since);
  }

  /**
   * A client received the confirmation of a delete. Erasing continues after that moment, so two overlapping deletes may
   * both be confirmed. A delete sent after the first confirmation must get a 404.
   */
  deleted(known: Known, organizationId: string, since: number, askedAt: number): void {
    if (organizationId !== known.organizationId)
      this.violated(`${known.id} of ${known.organizationId} is deleted by ${organizationId}`);
    if (known.deletedAt < askedAt)
      this.violated(
        `${known.id} is deleted by a request sent at ${askedAt}, but had already been deleted at ${known.deletedAt}`,
      );
    this.#wasThere(known, since);
    known.deletedAt = Math.min(known.deletedAt, this.time.now);
  }

  #wasThere(known: Known, since: number): void {
    if (this.expiresAt(known) <= since)
      this.violated(`${known.id} exists at ${since}, but had expired at ${this.expiresAt(known)}`);
    if (!known.stored) this.violated(`${known.id} exists, but was not to be stored`);
  }

  /**
   * A client received log events with numbers above `after`. `isWhole`: no more events follow. `wasWell`: no write to
   * the log failed; otherwise, events may have been sent but not stored.
   */
  followed(known: Known, events: readonly SentEvent[], after: number, isWhole: boolean, wasWell: boolean): void {
    let next = after + 1;
    const numbered = events.filter(({ data }) => data !== '[DONE]');
    for (const { data, type } of numbered) {
      const {
        sequence_number: number,
        response,
        code,
      } = JSON.parse(data) as { sequence_number: number; response?: Resource; code?: string };
      if (type === 'error' && code === 'response_not_found') {
        // The error event is not part of the log.
        if (!this.isLost(known))
          this.violated(`${known.id} is reported as deleted to a subscriber, but no client has deleted it`);
        continue;
      }
      // If the log is gone, a slow subscriber receives only the terminal event.
      const isGone =
        (TERMINAL.has(type) || type === 'error') && (this.isLost(known) || known.seenAt + LOG_S <= this.now);
      if (wasWell && number !== next && !isGone)
        this.violated(`event ${number} of ${known.id} arrives where ${next} was expected`);
      next = number + 1;
      if (wasWell && known.background && known.seenAt + LOG_S > this.now) {
        const before = known.events.get(number);
        if (before !== undefined && before !== data)
          this.violated(`event ${number} of ${known.id} was ${before} and is now ${data}`);
        known.events.set(number, data);
      }
      if (wasWell && TERMINAL.has(type) && response !== undefined) this.saw(known, response);
    }
    const last = numbered.at(-1);
    if (
      wasWell &&
      isWhole &&
      last !== undefined &&
      !TERMINAL.has(last.type) &&
      !(last.type === 'error' && this.isLost(known))
    )
      this.violated(`the events of ${known.id} end with ${last.type}`);
  }

  /** Returns the texts from which a continuation is built, or null if some of the texts are unknown. */
  texts(known: Known): string[] | null {
    if (known.ended === null) return null;
    const before = known.previous === null ? [] : this.texts(known.previous);
    return before === null ? null : [...before, known.input, ...outputOf(JSON.parse(known.ended) as Resource)];
  }

  /** Checks a response's stored state. */
  async check(known: Known, responses: ResponseStore, others: readonly string[]): Promise<void> {
    this.read++;
    const stored = await responses.get(known.organizationId, known.id);
    if (stored === null) {
      this.missed(known, known.organizationId);
    } else {
      this.found(known, known.organizationId, this.now);
      this.saw(known, JSON.parse(JSON.stringify(stored.resource)) as Resource);
    }
    if (stored !== null && (stored.status === 'completed' || stored.status === 'incomplete')) {
      const chain = await responses.chain(known.organizationId, known.id);
      let length = 0;
      for (let at: Known | null = known; at !== null; at = at.previous) length++;
      if (chain?.responses.length !== length)
        this.violated(
          `the chain of ${known.id} has ${String(chain?.responses.length)} responses, and ${length} were expected`,
        );
      chain?.release();
    }
    for (const other of others)
      if (other !== known.organizationId && (await responses.get(other, known.id)) !== null)
        this.found(known, other, this.now);
  }

  /** Checks the list of an organization's responses, page by page. */
  async list(organizationId: string, responses: ResponseStore): Promise<void> {
    const listed = new Set<string>();
    let before = Infinity;
    for (let after: string | null = null; ; ) {
      const page = await responses.list(organizationId, 3, after);
      if (page === null) return this.violated(`a page after ${String(after)} is refused`);
      for (const { id, createdAt } of page.data) {
        const known = this.#byId.get(id);
        if (known !== undefined) this.found(known, organizationId, this.now);
        if (listed.has(id)) this.violated(`${id} is listed twice`);
        if (createdAt > before) this.violated(`${id} is listed after an older response`);
        before = createdAt;
        listed.add(id);
      }
      if (page.next === null) break;
      after = page.next;
    }
    for (const known of this.known)
      if (known.organizationId === organizationId && !this.isLost(known) && !listed.has(known.id))
        this.violated(`${known.id} is not in the list of ${organizationId}`);
  }
}
