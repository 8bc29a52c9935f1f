// Converts a pooling request to the GenerationRequest that represents it, so that admission, usage counting and logging
// treat it like other requests. Pure.
import type { PoolingInput, PoolingRequest } from '../../generation/pooling.js';
import type { GenerationRequest, Message } from '../../generation/types.js';
import { WITHOUT_TEXT } from '../../generation/without-text.js';

/** `keepsText`: whether the request log stores the request's text. */
export function asGeneration(model: string, request: PoolingRequest, keepsText: boolean): GenerationRequest {
  const { task, inputs, dimensions } = request;
  return {
    ...WITHOUT_TEXT,
    model,
    messages: keepsText ? inputs.map(messageOf) : [],
    pooling: { task, inputs: inputs.length, dimensions },
  };
}

function messageOf(input: PoolingInput): Message {
  switch (input.kind) {
    case 'text':
      return { role: 'user', content: input.text };
    case 'tokens':
      return { role: 'user', content: `[${input.tokens.length} token IDs]` };
    case 'pair':
      return { role: 'user', content: `${input.query}\n${input.document}` };
  }
}
