// One choice of a request with tools: what the engine says of it, told apart into text and tool calls. White
// space around calls is nobody's, but that texts with calls between them stay apart. Event-loop thread only.
import type { FinishedEvent, TextEvent } from '../../../engine/events.js';
import type { EndReason, GenerationEvent, TokenLogprob } from '../../types.js';
import { CallStream } from './call-stream.js';
import type { CallableTools } from './call-reader.js';
import type { ToolSyntax } from './syntax.js';

/** What the choices of one request have in common. */
export interface CallRules {
  readonly syntax: ToolSyntax;
  readonly tools: CallableTools;
  readonly parallel: boolean;
  /** A call was demanded: what fails to become one is no answer. */
  readonly required: boolean;
}

type Told = Exclude<GenerationEvent, { type: 'started' | 'failed' | 'finished' | 'prompt' | 'tokens' }>;
/** Without the choice and the tokens, which are the same affair for every event. */
type Untold<T = Told> = T extends Told ? Omit<T, 'choice' | 'tokens'> : never;

export class ChoiceEvents {
  readonly #calls: CallStream;
  #started = 0;
  #complete = 0;
  #tokens = 0; // generated and not told of yet
  #answerTokens = 0; // generated as long as they were wanted, reasoning not among them
  #logprobs: TokenLogprob[] = []; // the same of content
  #white = ''; // white space that belongs to the content if text follows
  #inCalls = false; // a bare call's syntax: the whole answer is being read as one
  #hasText = false;
  #afterCall = false; // nothing but white space since
  #parts = false; // and that is all there is between two texts
  #over = false; // no more of this choice is wanted
  #malformed = false;
  #isSingle = false; // the one call there may be is complete
  #endedEarly = false; // by us: how far the engine had come by then is chance
  #ended = false; // by the engine
  #cut = false; // and not by the model's own will

  /** `emit` is told the events in order; `end` asks the engine to end the choice before its next step. */
  constructor(
    private readonly choice: number,
    private readonly rules: CallRules,
    private readonly emit: (event: GenerationEvent) => void,
    private readonly end: () => void,
  ) {
    this.#calls = new CallStream(rules.syntax, rules.tools, {
      started: (name) => this.#callStarted(name),
      arguments: (text) => this.#tell({ type: 'call_arguments', index: this.#started - 1, text }),
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
      this.#tell({ type: 'text', section: 'reasoning', text: event.text, logprobs: null });
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

  /** Sends the choice's remaining events, its end included. */
  finished(event: FinishedEvent, stopString: string | null): void {
    const natural = event.reason === 'end_of_turn' || event.reason === 'stop_string';
    this.#ended = true;
    this.#cut = !natural;
    if (!this.#over) this.#calls.end(natural);
    if (!this.#over && this.#started === 0 && this.#white !== '') this.#tellText(this.#white);
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
    // From here on a bare call's text is the parser's, whichever section the engine takes it for.
    this.#inCalls = this.rules.syntax.bare;
    this.#calls.push(text);
  }

  #callStarted(name: string): void {
    if (this.#over) return;
    this.#logprobs = [];
    if (!this.#hasText) this.#white = '';
    this.#tell({ type: 'call_started', index: this.#started++, name });
  }

  #callFinished(complete: boolean): void {
    if (this.#over) return;
    this.#tell({ type: 'call_finished', index: this.#started - 1, complete });
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

  /** Trailing white space waits for text behind it; of that around calls between two texts, one side is kept. */
  #content(piece: string): void {
    if (this.#over) return;
    const text = this.#afterCall ? piece.trimStart() : piece;
    if (this.#parts) this.#white += piece.slice(0, piece.length - text.length);
    if (text === '') return;
    this.#afterCall = this.#parts = false;
    const solid = text.trimEnd().length;
    if (solid > 0) this.#tellText(this.#white + text.slice(0, solid));
    this.#white = solid > 0 ? text.slice(solid) : this.#white + text;
  }

  #tellText(text: string): void {
    this.#hasText = true;
    const logprobs = this.#logprobs.length === 0 ? null : this.#logprobs;
    this.#logprobs = [];
    this.#tell({ type: 'text', section: 'content', text, logprobs });
  }

  #tell(event: Untold): void {
    if (this.#over) return;
    const tokens = this.#tokens;
    this.#tokens = 0;
    this.emit({ ...event, choice: this.choice, tokens } as GenerationEvent);
  }
}
