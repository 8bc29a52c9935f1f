// Checks that every tool call in the history has a result before the next message other than a result, and that every
// result belongs to a call. Shared by all formats, which report calls and results in order. No side effects.
import { apiError } from '../shared/errors.js';

export class ToolTurns {
  #open = new Map<string, string>(); // call ID → its path, for calls that do not have a result yet
  #answered = new Set<string>();

  /** Adds a call from the assistant's current turn. */
  call(id: string, path: string, idPath = `${path}.id`): void {
    if (this.#open.has(id))
      throw apiError('invalid_value', `${idPath} is already used by an earlier tool call.`, idPath);
    this.#open.set(id, path);
  }

  answer(id: string, idPath: string): void {
    if (this.#answered.has(id))
      throw apiError('invalid_value', `${idPath}: this tool call already has a result.`, idPath);
    if (!this.#open.delete(id))
      throw apiError('tool_call_not_found', `${idPath} does not match a preceding tool call without a result.`, idPath);
    this.#answered.add(id);
  }

  /** Called before any message other than a result, and at the end of the history. Throws if a call has no result. */
  settle(): void {
    if (this.#open.size > 0)
      for (const path of this.#open.values())
        throw apiError('missing_tool_output', `${path} has no tool result.`, path);
    if (this.#answered.size > 0) this.#answered.clear();
  }
}
