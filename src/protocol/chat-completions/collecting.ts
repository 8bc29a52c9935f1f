// Collects a complete chat completion, for non-streamed responses and for storage. Event-loop thread only.
import type { Exchange } from '../../http/exchange.js';
import { newCallKey } from '../../shared/ids.js';
import type { RunEvent } from '../run-tally.js';
import type { ChatCollector, ChatEncoder } from './encode.js';

/** Reserves response memory for the log probabilities in a ChatCollector. */
export class CollectorMemory {
  #held = 0;

  constructor(
    private readonly exchange: Exchange,
    private readonly collector: ChatCollector,
  ) {}

  /** Must be called after the collector has processed the event. */
  take(event: RunEvent): void {
    if (event.type !== 'prompt' && (event.type !== 'text' || event.logprobs === null)) return;
    const { size } = this.collector;
    this.exchange.reserve(size - this.#held);
    this.#held = size;
  }
}

/** Encodes a streamed response and also collects the copy to be stored. */
export class CollectingEncoder implements ChatEncoder {
  constructor(
    private readonly stream: ChatEncoder,
    readonly collector: ChatCollector,
  ) {}

  event(given: Parameters<ChatEncoder['event']>[0]): void {
    // A tool call's ID is derived from this key. The ID must be the same in the stream and in the stored copy.
    const event = given.type === 'call_started' && given.key === undefined ? { ...given, key: newCallKey() } : given;
    this.stream.event(event);
    this.collector.event(event);
  }

  evaluation(event: Parameters<ChatEncoder['evaluation']>[0]): void {
    this.stream.evaluation(event);
    this.collector.evaluation(event);
  }
}
