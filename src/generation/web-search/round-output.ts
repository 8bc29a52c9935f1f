// Collects the output of one generation that may end with web searches, and turns it into messages of the next prompt.
// No side effects.
import { GrowingText } from '../../shared/growing-text.js';
import { newToolCallId } from '../../shared/ids.js';
import type { GenerationEvent, JsonSchema, Message, Thought, ToolCall } from '../types.js';
import { outcomeText } from './search-options.js';
import type { SearchOutcome } from './outcome.js';

type StartedEvent = Extract<GenerationEvent, { type: 'started' }>;
type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

/** A call of the search tool. */
export interface SearchCall {
  readonly id: string;
  readonly arguments: GrowingText;
  isComplete: boolean;
}

export class RoundOutput {
  readonly searches: SearchCall[] = [];
  readonly #content = new GrowingText();
  readonly #thoughts: Thought[] = [];
  #reasoning = new GrowingText();

  /** Null until the generation has started. */
  started: StartedEvent | null = null;

  /** `param`: the request's field with the conversation. `before`: the beginning of the turn that is continued. */
  constructor(
    private readonly tool: string,
    private readonly param: string,
    before = '',
  ) {
    this.#content.add(before);
  }

  text({ section, text }: TextEvent): void {
    if (section === 'reasoning') {
      this.#reasoning.add(text);
      return;
    }
    if (text !== '') this.#endThought(null);
    this.#content.add(text);
  }

  /** Ends the reasoning so far. `block`: the upstream's own block for it. */
  thought(block: JsonSchema): void {
    this.#endThought(block);
  }

  call(): SearchCall {
    this.#endThought(null);
    const call = { id: newToolCallId(), arguments: new GrowingText(), isComplete: false };
    this.searches.push(call);
    return call;
  }

  /** The assistant's turn with these calls, and their results. */
  messages(calls: readonly SearchCall[], outcomes: readonly SearchOutcome[]): Message[] {
    this.#endThought(null);
    const content = this.#content.toString();
    const reasoning = this.#thoughts
      .map(({ text }) => text)
      .filter((text) => text !== '')
      .join('\n\n');
    return [
      {
        role: 'assistant',
        content: content === '' ? null : content,
        toolCalls: calls.map(
          ({ id, arguments: text }): ToolCall => ({ id, name: this.tool, arguments: text.toString() }),
        ),
        ...(reasoning === '' ? {} : { reasoning }),
        ...(this.#thoughts.length === 0 ? {} : { thoughts: this.#thoughts }),
      },
      ...calls.map(({ id }, at): Message => {
        const outcome = outcomes[at] as SearchOutcome;
        return { role: 'tool', toolCallId: id, content: outcomeText(outcome), failed: 'error' in outcome };
      }),
    ];
  }

  #endThought(block: JsonSchema | null): void {
    const text = this.#reasoning.toString();
    if (text === '' && block === null) return;
    this.#reasoning = new GrowingText();
    const upstream = this.started?.upstream;
    this.#thoughts.push({
      text,
      path: this.param,
      model: null, // any model that continues this turn may read its reasoning
      origin: upstream === undefined ? null : { upstream, block },
      after: { text: this.#content.length, calls: this.searches.length },
      current: true,
    });
  }
}
