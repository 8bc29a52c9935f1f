// Items → messages of the internal request. Reasoning, text and calls of one assistant turn become one
// message; answers to calls follow it, whatever came in between. Pure.
import { apiError } from '../../shared/errors.js';
import type { Content, Message, ToolCall } from '../../generation/types.js';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/**
 * What a client sends while calls are open waits for their answers: templates and models know answers only
 * right behind the calls, and clients that steer a running loop put their message in between.
 */
export class Conversation {
  readonly messages: Message[] = [];
  #turn: AssistantMessage | null = null; // the last message, as long as it can take more of its turn
  #caller: AssistantMessage | null = null; // the message with the open calls
  #reasoning: string[] = []; // of the turn that begins
  readonly #open = new Map<string, string>(); // call id → where it stands, still unanswered
  readonly #answered = new Set<string>();
  readonly #waiting: Message[] = [];

  say(message: Extract<Message, { role: 'system' | 'user' }>): void {
    this.#reasoning = [];
    this.#push(message);
    this.#turn = null;
  }

  reason(text: string): void {
    this.#reasoning.push(text);
  }

  answer(content: string, path: string): void {
    const message: AssistantMessage = { role: 'assistant', content, path, ...this.#takeReasoning() };
    this.#push(message);
    if (this.#open.size === 0) this.#turn = message;
  }

  /** Throws ApiError invalid_value for an id that is open already. */
  call(call: ToolCall, path: string): void {
    if (this.#open.has(call.id)) throw apiError('invalid_value', `${path}.call_id is used twice.`, `${path}.call_id`);
    const turn = this.#open.size > 0 ? this.#caller : this.#turn;
    if (turn === null) {
      this.#caller = { role: 'assistant', content: null, path, ...this.#takeReasoning(), toolCalls: [call] };
      this.messages.push(this.#caller);
    } else {
      const { reasoning } = this.#takeReasoning();
      if (reasoning !== undefined)
        turn.reasoning = turn.reasoning === undefined ? reasoning : `${turn.reasoning}\n\n${reasoning}`;
      turn.toolCalls = [...(turn.toolCalls ?? []), call];
      this.#caller = turn;
    }
    this.#turn = null;
    this.#open.set(call.id, path);
    this.#answered.delete(call.id); // some models count their calls anew in every turn
  }

  /** Throws ApiError: tool_call_not_found, invalid_value. */
  result(callId: string, content: Content, path: string): void {
    const idPath = `${path}.call_id`;
    if (this.#answered.has(callId)) throw apiError('invalid_value', `${idPath} is answered twice.`, idPath);
    if (!this.#open.delete(callId))
      throw apiError('tool_call_not_found', `${idPath} matches no tool call before it.`, idPath);
    this.#answered.add(callId);
    this.messages.push({ role: 'tool', content, toolCallId: callId, path });
    this.#turn = null;
    if (this.#open.size > 0) return;
    this.#caller = null;
    this.messages.push(...this.#waiting.splice(0));
  }

  /** Throws ApiError missing_tool_output if a call was left without its answer. */
  end(): void {
    const [unanswered] = this.#open.values();
    if (unanswered !== undefined)
      throw apiError('missing_tool_output', `${unanswered}: this tool call has no output that answers it.`, unanswered);
  }

  #push(message: Message): void {
    (this.#open.size > 0 ? this.#waiting : this.messages).push(message);
  }

  #takeReasoning(): { reasoning?: string } {
    const reasoning = this.#reasoning.join('\n\n');
    this.#reasoning = [];
    return reasoning === '' ? {} : { reasoning };
  }
}
