// A request of which only the prompt is wanted (`max_tokens: 0`): it is computed and stays in the prefix cache for the next
// one. The engine has no such request yet: it is asked for one token, and nobody is told of it.
import type { SubmitOptions } from '../../engine/addon-types.js';
import type { GenerationEvent } from '../types.js';

export function promptOnly(options: SubmitOptions): SubmitOptions {
  return { ...options, maxTokens: 1 };
}

/** Takes the events of a request that promptOnly() has made. */
export function withoutOutput(onEvent: (event: GenerationEvent) => void): (event: GenerationEvent) => void {
  return (event) => {
    if (event.type === 'finished') onEvent({ ...event, reason: 'max_tokens', stopString: null, completionTokens: 0, reasoningTokens: 0, calls: 0 });
    else if (event.type === 'started' || event.type === 'failed') onEvent(event);
  };
}
