// Checks a completed response against the output format if the upstream does not enforce it. A response that fails the
// check is reported as an error. Event-loop thread only.
import { apiError } from '../../shared/errors.js';
import { GrowingText } from '../../shared/growing-text.js';
import { formatProblem } from '../output-format.js';
import type { GenerationEvent, GenerationRequest, OutputFormat } from '../types.js';
import { schemaProblem } from './schema-problem.js';

/**
 * Throws ApiError 422 for formats that cannot be checked here: matching a client's regular expression or grammar could
 * take unlimited time.
 */
export function checkable(format: OutputFormat): void {
  if (format.type !== 'regex' && format.type !== 'grammar') return;
  throw apiError(
    'unsupported_feature',
    `${format.path}: the upstream server for this model does not support a ${format.type === 'regex' ? 'regular expression' : 'grammar'} as an output format.`,
    format.path,
  );
}

/**
 * Forwards events. If the check fails, the final event is replaced by a failure. `stop`: called when the rest of the
 * response is no longer needed.
 */
export function checked(
  format: OutputFormat,
  onEvent: (event: GenerationEvent) => void,
  stop: () => void,
): (event: GenerationEvent) => void {
  const contents = new Contents();
  return (event) => {
    contents.take(event);
    if (event.type === 'finished' && event.reason === 'end_of_turn') {
      const problem = problemOf(format, contents.of(event.choice));
      if (problem !== null) {
        const error = apiError(
          'model_error',
          `The model's output does not match the requested format: ${problem}.`,
          null,
        );
        stop();
        onEvent({ type: 'failed', code: 'upstream', message: error.message, error });
        return;
      }
    }
    onEvent(event);
  };
}

/** The content of each choice so far. */
class Contents {
  readonly #texts = new Map<number, GrowingText>();

  take(event: GenerationEvent): void {
    if (event.type !== 'text' || event.section !== 'content') return;
    let text = this.#texts.get(event.choice);
    if (text === undefined) this.#texts.set(event.choice, (text = new GrowingText()));
    text.add(event.text);
  }

  of(choice: number): string {
    return this.#texts.get(choice)?.toString() ?? '';
  }
}

/** Returns the problem without quoting the response. */
function problemOf(format: OutputFormat, text: string): string | null {
  if (format.type === 'choice') return format.choices.includes(text) ? null : 'it is not one of the choices';
  const problem = formatProblem(format, text);
  return problem !== null || format.type !== 'json_schema' ? problem : schemaProblem(format.schema, JSON.parse(text));
}

/**
 * Forwards events from an upstream that enforces the format. If the request has stop strings and the upstream does not
 * report whether one ended the response, a response that does not match the format is assumed to have been cut off by a
 * stop string.
 */
export function heldTo(
  { format, stop }: Pick<GenerationRequest, 'format' | 'stop'>,
  onEvent: (event: GenerationEvent) => void,
): (event: GenerationEvent) => void {
  if (stop.length === 0 || format.type === 'text') return onEvent;
  const contents = new Contents();
  return (event) => {
    contents.take(event);
    const isCut =
      event.type === 'finished' &&
      event.reason === 'end_of_turn' &&
      event.stopSequenceUnknown === true &&
      formatProblem(format, contents.of(event.choice)) !== null;
    onEvent(isCut ? { ...event, reason: 'stop_string', stopString: null } : event);
  };
}
