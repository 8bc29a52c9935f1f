// A form that the server elsewhere does not hold answers to, checked when the answer has ended by itself: one that fails it is
// told as a failure, never taken for an answer. Event-loop thread only.
import { apiError } from '../../shared/errors.js';
import { GrowingText } from '../../shared/growing-text.js';
import { formatProblem } from '../output-format.js';
import type { GenerationEvent, GenerationRequest, OutputFormat } from '../types.js';
import { schemaProblem } from './schema-problem.js';

/** Throws ApiError 422 for a form that cannot be checked here: patterns of strangers may take for ever. */
export function checkable(format: OutputFormat): void {
  if (format.type !== 'regex' && format.type !== 'grammar') return;
  throw apiError(
    'unsupported_feature',
    `${format.path}: the server this model runs on binds answers to no ${format.type === 'regex' ? 'regular expression' : 'grammar'}.`,
    format.path,
  );
}

/** Hands events on; an end that fails the form becomes a failure. `stop`: nothing more is wanted then. */
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
          `The model's answer is not of the format that was asked for: ${problem}.`,
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

/** In words that quote nothing of the answer. */
function problemOf(format: OutputFormat, text: string): string | null {
  if (format.type === 'choice') return format.choices.includes(text) ? null : 'it is none of the choices';
  const problem = formatProblem(format, text);
  return problem !== null || format.type !== 'json_schema' ? problem : schemaProblem(format.schema, JSON.parse(text));
}

/**
 * Hands events on of a server that holds to the form. Where there are stop strings, and it does not say whether one of them ended
 * an answer, one that is not of the form was cut by one, nobody knows which.
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
      event.stopUnsaid === true &&
      formatProblem(format, contents.of(event.choice)) !== null;
    onEvent(isCut ? { ...event, reason: 'stop_string', stopString: null } : event);
  };
}
