// Every tool call in the history is answered before the next message that is no answer, and only calls are
// answered. One walker for the three formats; it is told what stands where. Pure.
import { apiError } from '../shared/errors.js';

export class ToolTurns {
  #open = new Map<string, string>(); // call id → its path, still unanswered
  #answered = new Set<string>();

  /** A call of the assistant's current turn. */
  call(id: string, path: string, idPath = `${path}.id`): void {
    if (this.#open.has(id)) throw apiError('invalid_value', `${idPath} is used twice.`, idPath);
    this.#open.set(id, path);
  }

  answer(id: string, idPath: string): void {
    if (this.#answered.has(id)) throw apiError('invalid_value', `${idPath} is answered twice.`, idPath);
    if (!this.#open.delete(id))
      throw apiError('tool_call_not_found', `${idPath} matches no unanswered tool call before it.`, idPath);
    this.#answered.add(id);
  }

  /** Something else begins, or the history ends: all calls must have been answered. */
  settle(): void {
    if (this.#open.size > 0)
      for (const path of this.#open.values())
        throw apiError('missing_tool_output', `${path} has no tool output that answers it.`, path);
    if (this.#answered.size > 0) this.#answered.clear();
  }
}
