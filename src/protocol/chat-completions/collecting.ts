// Collects a chat completion while its events are sent. Event-loop thread only.
import type { Exchange } from '../../http/exchange.js';
import { newCallKey } from '../../shared/ids.js';
import type { RunEvent } from '../run-tally.js';
import type { ChatCollector, ChatEncoder } from './encode.js';

/** Reserves memory for the log probabilities of a response that is collected. */
export class CollectorMemory {
  #held = 0;

  constructor(
    private readonly exchange: Exchange,
    private readonly collector: ChatCollector,
  ) {}

  /** Call after the collector has taken the event. */
  take(event: RunEvent): void {
    if (event.type !== 'prompt' && (event.type !== 'text' || event.logprobs === null)) return;
    const { size } = this.collector;
    this.exchange.reserve(size - this.#held);
    this.#held = size;
  }
}

/** Encodes a stream and collects the copy that is stored. */
export class CollectingEncoder implements ChatEncoder {
  constructor(
    private readonly stream: ChatEncoder,
    readonly collector: ChatCollector,
  ) {}

  event(given: Parameters<ChatEncoder['event']>[0]): void {
    // Both encoders need the same key, so that a call has the same ID in both.
    const event = given.type === 'call_started' && given.key === undefined ? { ...given, key: newCallKey() } : given;
    this.stream.event(event);
    this.collector.event(event);
  }

  evaluation(event: Parameters<ChatEncoder['evaluation']>[0]): void {
    this.stream.evaluation(event);
    this.collector.evaluation(event);
  }
}
