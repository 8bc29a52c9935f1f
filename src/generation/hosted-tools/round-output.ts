// Collects the output of one generation that may end with calls of server-run tools, and converts it to messages for
// the next prompt. No side effects.
import { GrowingText } from '../../shared/growing-text.js';
import { newToolCallId } from '../../shared/ids.js';
import type { GenerationEvent, JsonSchema, Message, Thought, ToolCall } from '../types.js';

type StartedEvent = Extract<GenerationEvent, { type: 'started' }>;
type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

/** A call of a tool that this server runs. */
export interface HostedCall {
  readonly id: string;
  /** The tool's name in the prompt. */
  readonly name: string;
  readonly arguments: GrowingText;
  isComplete: boolean;
}

/** The result of a call, as shown to the model. */
export interface HostedResult {
  readonly text: string;
  readonly failed: boolean;
}

export class RoundOutput {
  readonly calls: HostedCall[] = [];
  readonly #content = new GrowingText();
  readonly #thoughts: Thought[] = [];
  #reasoning = new GrowingText();

  /** Null until the generation has started. */
  started: StartedEvent | null = null;

  /** `param`: the request field that contains the conversation. `before`: the beginning of the turn being continued. */
  constructor(
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

  /** Closes the current reasoning block. `block`: the upstream's own block for it. */
  thought(block: JsonSchema): void {
    this.#endThought(block);
  }

  call(name: string): HostedCall {
    this.#endThought(null);
    const call = { id: newToolCallId(), name, arguments: new GrowingText(), isComplete: false };
    this.calls.push(call);
    return call;
  }

  /** The assistant's turn with these calls, and their results. */
  messages(calls: readonly HostedCall[], results: readonly HostedResult[]): Message[] {
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
        toolCalls: calls.map(({ id, name, arguments: text }): ToolCall => ({ id, name, arguments: text.toString() })),
        ...(reasoning === '' ? {} : { reasoning }),
        ...(this.#thoughts.length === 0 ? {} : { thoughts: this.#thoughts }),
      },
      ...calls.map(({ id }, at): Message => {
        const { text, failed } = results[at] as HostedResult;
        return { role: 'tool', toolCallId: id, content: text, failed };
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
      after: { text: this.#content.length, calls: this.calls.length },
      current: true,
    });
  }
}
