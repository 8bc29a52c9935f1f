// Builds the request-log entry of a generation. Event-loop thread only.
import type { ApiError } from '../shared/errors.js';
import type { EndReason, GenerationRequest } from '../generation/types.js';
import type { RequestEntry, RequestText } from '../shared/request-entry.js';
import { outcomeOfError } from '../telemetry/outcome.js';
import type { AdmittedGeneration } from './admit.js';
import type { RunTally } from './run-tally.js';

export type RunEnd =
  | { status: 'completed'; reason: EndReason } // end reason of the last choice
  | { status: 'cancelled' } // the client no longer needs the output
  | { status: 'failed'; error: ApiError }
  | { status: 'refused'; error: ApiError } // the provider rejected the request
  | { status: 'abandoned' }; // never started, because the consumer failed

export type RequestParameters = Record<string, string | number | boolean>;

export interface EndedRun {
  admitted: Pick<AdmittedGeneration, 'caller' | 'model'>;
  tally: RunTally;
  end: RunEnd;
  stream: boolean;
  images: number;
  parameters: RequestParameters;
  text: RequestText | null;
}

export function runEntry({
  admitted: { caller, model },
  tally,
  end,
  stream,
  images,
  parameters,
  text,
}: EndedRun): RequestEntry {
  const {
    identity: { organizationId, keyId },
    requestId,
    endpoint,
  } = caller;
  const { usage, queueMs, towerMs } = tally;
  const error = end.status === 'failed' || end.status === 'refused' ? end.error : null;
  const isLost = end.status === 'abandoned';
  return {
    requestId,
    organizationId,
    keyId,
    model,
    endpoint,
    stream,
    status: error?.status ?? (isLost ? 500 : end.status === 'cancelled' ? null : 200),
    outcome: isLost
      ? 'failed'
      : end.status === 'completed' || end.status === 'cancelled'
        ? end.status
        : outcomeOfError((error as ApiError).status, usage.completionTokens),
    code: error?.code ?? (isLost ? 'internal_error' : null),
    finishReason: end.status === 'completed' ? end.reason : null,
    ...tally.times(),
    queueMs,
    ...(towerMs === null ? {} : { towerMs }),
    inputTokens: usage.promptTokens,
    cachedTokens: usage.cachedTokens,
    outputTokens: usage.completionTokens,
    reasoningTokens: usage.reasoningTokens,
    images,
    parameters: { ...parameters, ...(tally.estimated ? { usage_estimated: true } : {}) },
    text,
  };
}

/** The request's parameters apart from its text. Parameters that use the model's defaults are omitted. */
export function parametersOf(request: GenerationRequest): RequestParameters {
  const { sampling, tools } = request;
  const asked: RequestParameters = { messages: request.messages.length };
  const put = (name: string, value: string | number | boolean | null | undefined): void => {
    if (value !== null && value !== undefined) asked[name] = value;
  };
  put('max_tokens', request.maxTokens);
  if (request.n !== 1) asked['n'] = request.n;
  put('temperature', sampling.temperature);
  put('top_p', sampling.topP);
  put('top_k', sampling.topK);
  put('min_p', sampling.minP);
  put('repetition_penalty', sampling.repetitionPenalty);
  put('frequency_penalty', sampling.frequencyPenalty);
  put('presence_penalty', sampling.presencePenalty);
  put('seed', sampling.seed?.toString());
  put('logit_bias', sampling.logitBias?.length);
  if (request.stop.length > 0) asked['stop'] = request.stop.length;
  put('top_logprobs', request.topLogprobs);
  put('effort', request.effort);
  put('reasoning_budget', request.reasoningBudget);
  if (tools.length > 0) {
    asked['tools'] = tools.length;
    asked['tool_choice'] = request.toolChoice.mode;
    asked['parallel_tool_calls'] = request.parallelToolCalls;
  }
  if (request.format.type !== 'text') asked['format'] = request.format.type;
  if (request.truncation === 'auto') asked['truncation'] = 'auto';
  if (request.continueFinal) asked['continue_final'] = true;
  return asked;
}
