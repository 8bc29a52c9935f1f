// OpenAI's deprecated function calling. Converts `functions`, `function_call` and messages with the role "function" to
// tools, a tool choice and tool results. Responses to requests with `functions` also use the deprecated form. No side
// effects.
import { apiError } from '../../shared/errors.js';
import type { ToolChoice, ToolDefinition } from '../../generation/types.js';
import type { ToolInput } from '../tools.js';
import { toToolChoice } from '../tools.js';
import type { ToolTurns } from '../tool-turns.js';
import type { ChatEnvelopeFields, ChatMessage } from './schema.js';

type FunctionFields = Pick<ChatEnvelopeFields, 'functions' | 'function_call' | 'tools' | 'tool_choice'>;

/**
 * Throws ApiError conflicting_parameters if a request combines the deprecated parameters with `tools` or other
 * parameters that replaced them.
 */
export function checkFunctionFields({ functions, function_call: choice, ...chat }: FunctionFields): void {
  for (const [old, given] of Object.entries({ functions, function_call: choice }))
    for (const name of ['tools', 'tool_choice'] as const)
      if (given != null && chat[name] != null)
        throw apiError('conflicting_parameters', `${old} and ${name} cannot both be given.`, old);
  if (choice != null && choice !== 'none' && functions == null)
    throw apiError('conflicting_parameters', 'function_call requires functions.', 'function_call');
}

export function functionInputs({ functions }: FunctionFields): ToolInput[] {
  return (functions ?? []).map((given, index) => ({ path: `functions[${index}]`, ...given }));
}

/** Throws ApiError tool_not_found if `function_call` names a function that the request does not define. */
export function functionChoice(
  tools: readonly ToolDefinition[],
  { function_call: choice }: FunctionFields,
): ToolChoice {
  if (choice == null || typeof choice === 'string') return toToolChoice(tools, choice ?? null, null);
  if (tools.every(({ name }) => name !== choice.name))
    throw apiError('tool_not_found', 'function_call names a function that is not in functions.', 'function_call');
  return toToolChoice(tools, 'required', [choice.name]);
}

type FunctionCall = NonNullable<Extract<ChatMessage, { role: 'assistant' }>['function_call']>;
type FunctionResult = Extract<ChatMessage, { role: 'function' }>;

/**
 * Assigns IDs to the function calls of a conversation. The deprecated format has no call IDs and matches results with
 * calls by name only.
 */
export class FunctionTurns {
  #open: { id: string; name: string } | null = null;

  constructor(private readonly turns: ToolTurns) {}

  /** Returns the ID that is assigned to the call. */
  call({ name }: FunctionCall, path: string): string {
    const id = `${path}.function_call`;
    this.turns.call(id, id, id);
    this.#open = { id, name };
    return id;
  }

  /**
   * Returns the ID of the call that the result belongs to. Throws ApiError tool_call_not_found if the preceding
   * assistant message does not call this function.
   */
  answer({ name }: FunctionResult, path: string): string {
    const open = this.#open;
    if (open === null || open.name !== name)
      throw apiError(
        'tool_call_not_found',
        `${path}.name does not match a function_call of the preceding assistant message.`,
        `${path}.name`,
      );
    this.#open = null;
    this.turns.answer(open.id, `${path}.name`);
    return open.id;
  }
}
