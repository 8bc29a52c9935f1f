// Converts items to the messages of the internal request. Reasoning, text and calls of one assistant turn become one
// message. The turn's tool results follow directly, even if there were other items in between. No side effects.
import { apiError } from '../../shared/errors.js';
import type { Content, Message, Thought, ToolCall } from '../../generation/types.js';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** Reasoning without its position. */
export type OwnThought = Pick<Thought, 'text' | 'path' | 'model' | 'origin'>;
/**
 * Items that arrive while tool calls are open are deferred until all calls have results. Templates and models accept
 * results only directly after the calls, but clients that steer a running tool loop put their message between the calls
 * and the results.
 */
export class Conversation {
  readonly messages: Message[] = [];
  #turn: AssistantMessage | null = null; // the last message, while more items of its turn may follow
  #caller: AssistantMessage | null = null; // the message that contains the open calls
  #noted: AssistantMessage | null = null; // the last message, if it ends with text from note()
  #reasoning: OwnThought[] = []; // reasoning of the turn that is starting
  #lacksReasoning = false;
  readonly #thoughts = new Map<AssistantMessage, Thought[]>();
  readonly #open = new Map<string, string>(); // call ID → its path, for calls that do not have a result yet
  readonly #answered = new Set<string>();
  readonly #waiting: Message[] = [];

  add(message: Extract<Message, { role: 'system' | 'user' }>): void {
    this.#reasoning = [];
    this.#lacksReasoning = false;
    this.#push(message);
    this.#turn = null;
  }

  reason(thought: OwnThought): void {
    this.#reasoning.push(thought);
  }

  /** Records that some reasoning was omitted at this point. */
  lacksReasoning(): void {
    this.#lacksReasoning = true;
  }

  /** Adds text about a hosted tool to the assistant's turn, in the same message as the output before or after it. */
  note(text: string, path: string): void {
    if (this.#turn === null) this.answer(text, path);
    else this.#turn.content = join(this.#turn.content, text);
    this.#noted = this.#turn;
  }

  answer(content: string, path: string): void {
    if (this.#turn !== null && this.#turn === this.#noted) {
      this.#takeReasoningInto(this.#turn);
      this.#turn.content = join(this.#turn.content, content);
      this.#noted = null;
      return;
    }
    const message = this.#newTurn(content, path);
    this.#push(message);
    if (this.#open.size === 0) this.#turn = message;
  }

  /** Throws ApiError invalid_value if the ID is already open. */
  call(call: ToolCall, path: string): void {
    if (this.#open.has(call.id))
      throw apiError('invalid_value', `${path}.call_id is already used by an earlier tool call.`, `${path}.call_id`);
    const turn = this.#open.size > 0 ? this.#caller : this.#turn;
    if (turn === null) {
      this.#caller = this.#newTurn(null, path);
      this.#caller.toolCalls = [call];
      this.messages.push(this.#caller);
    } else {
      this.#takeReasoningInto(turn);
      (turn.toolCalls ??= []).push(call);
      this.#caller = turn;
    }
    this.#turn = null;
    this.#open.set(call.id, path);
    this.#answered.delete(call.id); // some models restart their call numbering in every turn
  }

  /** Throws ApiError tool_call_not_found or invalid_value. */
  result(callId: string, content: Content, path: string): void {
    const idPath = `${path}.call_id`;
    if (this.#answered.has(callId))
      throw apiError('invalid_value', `${idPath}: this tool call already has a result.`, idPath);
    if (!this.#open.delete(callId))
      throw apiError('tool_call_not_found', `${idPath} does not match a preceding tool call.`, idPath);
    this.#answered.add(callId);
    this.messages.push({ role: 'tool', content, toolCallId: callId, path });
    this.#turn = null;
    if (this.#open.size > 0) return;
    this.#caller = null;
    this.messages.push(...this.#waiting.splice(0));
  }

  /** Throws ApiError missing_tool_output if a call has no result. */
  end(): void {
    const [unanswered] = this.#open.values();
    if (unanswered !== undefined)
      throw apiError('missing_tool_output', `${unanswered} has no tool output.`, unanswered);
  }

  #push(message: Message): void {
    (this.#open.size > 0 ? this.#waiting : this.messages).push(message);
  }

  #newTurn(content: string | null, path: string): AssistantMessage {
    const turn: AssistantMessage = { role: 'assistant', content, path };
    this.#takeReasoningInto(turn, { text: 0, calls: 0 });
    return turn;
  }

  /**
   * Moves the reasoning of the turn that is starting into `turn`. `after`: the position of the reasoning within the
   * turn.
   */
  #takeReasoningInto(
    turn: AssistantMessage,
    after = { text: turn.content?.length ?? 0, calls: turn.toolCalls?.length ?? 0 },
  ): void {
    // A turn may have thousands of items, so its lists grow in place.
    if (this.#reasoning.length > 0) {
      const thoughts = this.#thoughts.get(turn) ?? [];
      for (const thought of this.#reasoning) thoughts.push({ ...thought, after, current: true });
      this.#thoughts.set(turn, thoughts);
      turn.thoughts = thoughts;
    }
    if (this.#lacksReasoning) turn.lacksReasoning = true;
    this.#reasoning = [];
    this.#lacksReasoning = false;
  }
}

const join = (before: string | null, text: string): string => (before ? `${before}\n\n${text}` : text);
