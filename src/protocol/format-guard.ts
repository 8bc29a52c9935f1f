// Final check of a response generated under an output format: if JSON was requested, the text must parse as JSON. A
// response that ended naturally and fails the check is reported as a server error. Responses that were cut off by a
// limit or a stop string are not checked. Event-loop thread only.
import { apiError } from '../shared/errors.js';
import { formatProblem } from '../generation/output-format.js';
import { GrowingText } from '../shared/growing-text.js';
import type { GenerationEvent, OutputFormat } from '../generation/types.js';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;
type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

export class FormatGuard {
  readonly #contents: GrowingText[]; // by choice

  private constructor(
    private readonly format: OutputFormat,
    n: number,
  ) {
    this.#contents = Array.from({ length: n }, () => new GrowingText());
  }

  /** Returns null if the format allows any text. */
  static for(format: OutputFormat, n: number): FormatGuard | null {
    return format.type !== 'json_object' && format.type !== 'json_schema' ? null : new FormatGuard(format, n);
  }

  text({ choice, section, text }: TextEvent): void {
    if (section === 'content') this.#contents[choice]?.add(text);
  }

  /** Called before a web search: the content so far is a separate part, which is not checked. */
  restart(choice: number): void {
    this.#contents[choice] = new GrowingText();
  }

  /** Throws ApiError model_error, whose message does not quote the response. */
  finished({ choice, reason }: FinishedEvent): void {
    if (reason !== 'end_of_turn' && reason !== 'tool_calls') return;
    const content = this.#contents[choice]?.toString() ?? '';
    if (reason === 'tool_calls' && content.trim() === '') return; // the response consists only of tool calls
    checkAnswer(this.format, content);
  }
}

/** Throws ApiError model_error, whose message does not quote the response. */
export function checkAnswer(format: OutputFormat, content: string): void {
  const problem = formatProblem(format, content);
  if (problem === null) return;
  throw apiError('model_error', `The model's output does not match the requested format: ${problem}.`, null);
}
