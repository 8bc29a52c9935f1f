// What clients know of stored responses, and what must be true of them whatever has happened since: what was acknowledged
// can be read until it is deleted or its time is over, to the second; what has ended stays as it ended; nobody else sees
// it; an event's number stands for one event.
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
  /** As it ended, as JSON; null: a client knows of no end. */
  ended: string | null;
  /** Seconds since 1970, before which it did not end. */
  readonly seenAt: number;
  /** Microseconds. */
  readonly askedAt: number;
  deleteAsked: boolean;
  /** When it was first said to be: microseconds; Infinity: not yet. */
  deletedAt: number;
  /** Of the log. */
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
      this.violated(`two responses are ${known.id}`);
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

  /** A client was shown the response so. */
  saw(known: Known, resource: Resource): void {
    const { id, status } = resource;
    if (id !== known.id) this.violated(`${known.id} was asked for and ${id} came`);
    if (resource.created_at !== known.createdAt)
      this.violated(`${id} was made at ${known.createdAt}, and now at ${resource.created_at}`);
    const shown = JSON.stringify(resource);
    if (known.ended !== null && known.ended !== shown)
      this.violated(`${id} had ended as ${known.ended} and is ${shown}`);
    if (isEnded(status)) known.ended = shown;
  }

  /** A client asked for it and was told that it does not exist. */
  missed(known: Known, organizationId: string): void {
    if (organizationId === known.organizationId && !this.isLost(known))
      this.violated(
        `${known.id} is not found at ${this.now}; it was acknowledged, expires at ${this.expiresAt(known)} and nobody has deleted it`,
      );
  }

  /** A client was shown it. `since`: seconds, when it was asked for. */
  found(known: Known, organizationId: string, since: number): void {
    if (organizationId !== known.organizationId)
      this.violated(`${known.id} of ${known.organizationId} is shown to ${organizationId}`);
    if (known.deletedAt <= this.time.now) this.violated(`${known.id} is shown, which was deleted`);
    this.#wasThere(known, since);
  }

  /** A client was told that it is deleted now. Erasing goes on behind that moment, so that another may be told of a later one sooner, but nobody who asks then. */
  deleted(known: Known, organizationId: string, since: number, askedAt: number): void {
    if (organizationId !== known.organizationId)
      this.violated(`${known.id} of ${known.organizationId} is deleted by ${organizationId}`);
    if (known.deletedAt < askedAt)
      this.violated(`${known.id} is deleted by who asked at ${askedAt}, and was at ${known.deletedAt}`);
    this.#wasThere(known, since);
    known.deletedAt = Math.min(known.deletedAt, this.time.now);
  }

  #wasThere(known: Known, since: number): void {
    if (this.expiresAt(known) <= since)
      this.violated(`${known.id} is there at ${since}, and had expired at ${this.expiresAt(known)}`);
    if (!known.stored) this.violated(`${known.id} is there, which was not to be stored`);
  }

  /**
   * Events of its log that came after number `after`; `isWhole`: there are no more. `wasWell`: the log could be written; else
   * they may have been sent and not kept.
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
        // no event of the log
        if (!this.isLost(known)) this.violated(`${known.id} is said to be deleted to who follows it, and nobody has`);
        continue;
      }
      // Whoever reads slowly, and finds the log gone, is told the end alone.
      const isGone =
        (TERMINAL.has(type) || type === 'error') && (this.isLost(known) || known.seenAt + LOG_S <= this.now);
      if (wasWell && number !== next && !isGone)
        this.violated(`event ${number} of ${known.id} comes where ${next} was to`);
      next = number + 1;
      if (wasWell && known.background && known.seenAt + LOG_S > this.now) {
        const before = known.events.get(number);
        if (before !== undefined && before !== data)
          this.violated(`event ${number} of ${known.id} was ${before} and is ${data}`);
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

  /** The texts that a continuation is made of; null if not all of it is known. */
  texts(known: Known): string[] | null {
    if (known.ended === null) return null;
    const before = known.previous === null ? [] : this.texts(known.previous);
    return before === null ? null : [...before, known.input, ...outputOf(JSON.parse(known.ended) as Resource)];
  }

  /** As storage has it now. */
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
          `the chain of ${known.id} has ${String(chain?.responses.length)} responses, and ${length} were made of it`,
        );
      chain?.release();
    }
    for (const other of others)
      if (other !== known.organizationId && (await responses.get(other, known.id)) !== null)
        this.found(known, other, this.now);
  }

  /** All that an organization has, page by page. */
  async list(organizationId: string, responses: ResponseStore): Promise<void> {
    const listed = new Set<string>();
    let before = Infinity;
    for (let after: string | null = null; ; ) {
      const page = await responses.list(organizationId, 3, after);
      if (page === null) return this.violated(`a page behind ${String(after)} is refused`);
      for (const { id, createdAt } of page.data) {
        const known = this.#byId.get(id);
        if (known !== undefined) this.found(known, organizationId, this.now);
        if (listed.has(id)) this.violated(`${id} is listed twice`);
        if (createdAt > before) this.violated(`${id} is listed behind an older one`);
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
