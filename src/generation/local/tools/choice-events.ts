// One choice of a request with tools: separates the engine's output into text and tool calls. White space around calls
// is dropped, except for some between two texts that are separated only by calls. Event-loop thread only.
import type { FinishedEvent, TextEvent } from '../../../engine/events.js';
import type { EndReason, GenerationEvent, PredictionCount, TokenLogprob } from '../../types.js';
import { CallStream } from './call-stream.js';
import type { CallableTools } from './call-reader.js';
import type { ToolSyntax } from './syntax.js';

/** State shared by the choices of one request. */
export interface CallRules {
  readonly syntax: ToolSyntax;
  readonly tools: CallableTools;
  readonly parallel: boolean;
  /** Whether a call is required. If so, text that is not a call is dropped. */
  readonly required: boolean;
}

type ChoiceEvent = Exclude<GenerationEvent, { type: 'started' | 'failed' | 'finished' | 'prompt' | 'tokens' }>;
/** An event without its fields `choice` and `tokens`, which are added to all events in one place. */
type UnnumberedEvent<T = ChoiceEvent> = T extends ChoiceEvent ? Omit<T, 'choice' | 'tokens'> : never;

export class ChoiceEvents {
  readonly #calls: CallStream;
  #started = 0;
  #complete = 0;
  #tokens = 0; // generated tokens not reported yet
  #answerTokens = 0; // generated tokens that belong to the response, excluding reasoning
  #logprobs: TokenLogprob[] = []; // log-probabilities of content not reported yet
  #white = ''; // white space that belongs to the content if text follows
  #inCalls = false; // bare syntax only: the whole response is being read as a call
  #hasText = false;
  #afterCall = false; // only white space since a call
  #parts = false; // calls are the only separator between two texts
  #over = false; // the rest of this choice is not needed
  #malformed = false;
  #isSingle = false; // the only allowed call is complete
  #endedEarly = false; // ended by this class, so the engine's token count at that point is arbitrary
  #ended = false; // ended by the engine
  #cut = false; // not ended by the model itself

  /** `emit` receives the events in order. `end` asks the engine to end the choice before its next step. */
  constructor(
    private readonly choice: number,
    private readonly rules: CallRules,
    private readonly emit: (event: GenerationEvent) => void,
    private readonly end: () => void,
  ) {
    this.#calls = new CallStream(rules.syntax, rules.tools, {
      started: (name) => this.#callStarted(name),
      arguments: (text) => this.#emit({ type: 'call_arguments', index: this.#started - 1, text }),
      finished: (complete) => this.#callFinished(complete),
      text: (text) => {
        if (!rules.required || this.#started > 0) this.#content(text);
      },
    });
  }

  text(event: TextEvent, logprobs: TokenLogprob[] | null): void {
    this.#tokens += event.tokens;
    if (this.#over) return;
    if (event.section !== 'reasoning') this.#answerTokens += event.tokens;
    if (event.section === 'reasoning') {
      this.#emit({ type: 'text', section: 'reasoning', text: event.text, logprobs: null });
      return;
    }
    if (logprobs !== null) this.#logprobs.push(...logprobs);
    if (event.section === 'tool' || this.#inCalls || this.#beginsBareCall(event.text)) {
      this.#read(event.text);
      return;
    }
    this.#calls.leave();
    this.#content(event.text);
  }

  /** Emits the choice's remaining events, including `finished`. */
  finished(event: FinishedEvent, stopString: string | null, more: { prediction?: PredictionCount } = {}): void {
    const natural = event.reason === 'end_of_turn' || event.reason === 'stop_string';
    this.#ended = true;
    this.#cut = !natural;
    if (!this.#over) this.#calls.end(natural);
    if (!this.#over && this.#started === 0 && this.#white !== '') this.#emitText(this.#white);
    const reason = this.#reason(event.reason);
    this.emit({
      type: 'finished',
      choice: this.choice,
      reason,
      stopString: reason === 'stop_string' ? stopString : null,
      completionTokens: this.#endedEarly ? event.reasoningTokens + this.#answerTokens : event.completionTokens,
      reasoningTokens: event.reasoningTokens,
      calls: this.#started,
      timings: { prefillMs: event.prefillMs, decodeMs: event.decodeMs },
      ...more,
    });
  }

  #reason(reason: EndReason): EndReason {
    if (this.#malformed || (this.rules.required && this.#complete === 0 && !this.#cut)) return 'malformed_call';
    return this.#complete > 0 && (this.#isSingle || !this.#cut) ? 'tool_calls' : reason;
  }

  #beginsBareCall(text: string): boolean {
    return this.rules.syntax.bare && !this.#hasText && this.#started === 0 && text.trimStart().startsWith('{');
  }

  #read(text: string): void {
    // From here on, the parser reads all text of a bare call, regardless of the section to which the engine assigns it.
    this.#inCalls = this.rules.syntax.bare;
    this.#calls.push(text);
  }

  #callStarted(name: string): void {
    if (this.#over) return;
    this.#logprobs = [];
    if (!this.#hasText) this.#white = '';
    this.#emit({ type: 'call_started', index: this.#started++, name });
  }

  #callFinished(complete: boolean): void {
    if (this.#over) return;
    this.#emit({ type: 'call_finished', index: this.#started - 1, complete });
    this.#afterCall = true;
    this.#parts = this.#hasText && this.#white === '';
    if (complete) this.#complete++;
    else this.#malformed = !this.#cut;
    if (complete && this.rules.parallel) return;
    this.#isSingle = complete;
    this.#over = true;
    if (this.#ended) return;
    this.#endedEarly = true;
    this.end();
  }

  /**
   * Trailing white space is held until text follows. Between two texts, white space is kept on only one side of the
   * calls.
   */
  #content(piece: string): void {
    if (this.#over) return;
    const text = this.#afterCall ? piece.trimStart() : piece;
    if (this.#parts) this.#white += piece.slice(0, piece.length - text.length);
    if (text === '') return;
    this.#afterCall = this.#parts = false;
    const solid = text.trimEnd().length;
    if (solid > 0) this.#emitText(this.#white + text.slice(0, solid));
    this.#white = solid > 0 ? text.slice(solid) : this.#white + text;
  }

  #emitText(text: string): void {
    this.#hasText = true;
    const logprobs = this.#logprobs.length === 0 ? null : this.#logprobs;
    this.#logprobs = [];
    this.#emit({ type: 'text', section: 'content', text, logprobs });
  }

  #emit(event: UnnumberedEvent): void {
    if (this.#over) return;
    const tokens = this.#tokens;
    this.#tokens = 0;
    this.emit({ ...event, choice: this.choice, tokens } as GenerationEvent);
  }
}
