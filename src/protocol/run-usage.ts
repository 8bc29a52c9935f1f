// The record of usage of one generation: when what happened, told to the sink once it has ended. Event-loop
// thread only.
import { performance } from 'node:perf_hooks';
import type { ApiError } from '../errors.js';
import type { Message } from '../generation/types.js';
import type { FinishedUsage, UsageSink } from '../shared/usage-sink.js';
import type { Caller, Usage } from './generation-run.js';

export type RunStatus = FinishedUsage['status'];

export interface RunSubject {
  caller: Pick<Caller, 'identity' | 'requestId' | 'endpoint' | 'receivedAt'>;
  model: string;
  stream: boolean;
  images: number;
}

export function countImages(messages: readonly Message[]): number {
  let images = 0;
  for (const { content } of messages) {
    if (content === null || typeof content === 'string') continue;
    for (const part of content) if (part.type === 'image') images++;
  }
  return images;
}

export class RunUsage {
  #startedAt: number | null = null;
  #firstTokenAt: number | null = null;

  constructor(private readonly subject: RunSubject, private readonly sink: UsageSink) {}

  /** The engine has taken it out of its queue. */
  started(): void {
    this.#startedAt = Date.now();
  }

  /** So many tokens more. */
  tokens(count: number): void {
    if (count > 0) this.#firstTokenAt ??= Date.now();
  }

  ended(usage: Usage, status: RunStatus, finishReason: string | null, errorCode: string | null): void {
    this.sink.finished(this.row(usage, status, finishReason, errorCode));
  }

  /** What is told at the end, if it were now. */
  row(usage: Usage, status: RunStatus, finishReason: string | null, errorCode: string | null): FinishedUsage {
    const { caller: { identity, requestId, endpoint, receivedAt }, model, stream, images } = this.subject;
    return {
      requestId, organizationId: identity.organizationId, keyId: identity.keyId, model, endpoint, stream, status,
      receivedAt: Math.round(performance.timeOrigin + receivedAt), startedAt: this.#startedAt, firstTokenAt: this.#firstTokenAt, endedAt: Date.now(),
      inputTokens: usage.promptTokens, cachedTokens: usage.cachedTokens, outputTokens: usage.completionTokens, reasoningTokens: usage.reasoningTokens,
      images, finishReason, errorCode,
    };
  }

  /** It came to nothing and does not count as a request. */
  refused({ status, code }: ApiError): void {
    const { caller: { identity, endpoint }, model } = this.subject;
    this.sink.rejected({ organizationId: identity.organizationId, keyId: identity.keyId, model, endpoint, status, code });
  }
}
