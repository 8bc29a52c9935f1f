// The last look at an answer that was sampled under a form: it must at least be JSON where that was asked. One
// that ended by itself and is not is a failure of ours, and no client should take it for an answer; one that
// was cut (by a limit or a stop string) may end anywhere. Event-loop thread only.
import { apiError } from '../shared/errors.js';
import { formatProblem } from '../generation/output-format.js';
import { GrowingText } from '../shared/growing-text.js';
import type { GenerationEvent, OutputFormat } from '../generation/types.js';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;
type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;

export class FormatGuard {
  readonly #contents: GrowingText[]; // per choice

  private constructor(
    private readonly format: OutputFormat,
    n: number,
  ) {
    this.#contents = Array.from({ length: n }, () => new GrowingText());
  }

  /** Null if any text will do. */
  static for(format: OutputFormat, n: number): FormatGuard | null {
    return format.type !== 'json_object' && format.type !== 'json_schema' ? null : new FormatGuard(format, n);
  }

  text({ choice, section, text }: TextEvent): void {
    if (section === 'content') this.#contents[choice]?.add(text);
  }

  /** Throws ApiError model_error, which quotes nothing of the answer. */
  finished({ choice, reason }: FinishedEvent): void {
    if (reason !== 'end_of_turn' && reason !== 'tool_calls') return;
    const content = this.#contents[choice]?.toString() ?? '';
    if (reason === 'tool_calls' && content.trim() === '') return; // the calls are the answer
    checkAnswer(this.format, content);
  }
}

/** Throws ApiError model_error, which quotes nothing of the answer. */
export function checkAnswer(format: OutputFormat, content: string): void {
  const problem = formatProblem(format, content);
  if (problem === null) return;
  throw apiError('model_error', `The model's answer is not of the format that was asked for: ${problem}.`, null);
}
