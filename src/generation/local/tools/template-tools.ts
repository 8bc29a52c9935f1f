// Converts a request's tools to the form that templates expect, with all client text shielded. The result is cached,
// because every request of a conversation has the same tools. Event-loop thread only.
import { apiError } from '../../../shared/errors.js';
import { stringifyAsWritten, withMembers } from '../../../shared/exact-json.js';
import type { TemplateTool } from '../template/context.js';
import type { Shield } from '../shield.js';
import type { ToolDefinition } from '../../types.js';
import { isShallow } from './call-arguments.js';

const MAX_DEPTH = 256;
const REMEMBERED = 32;
/** Definitions with more characters than this are not cached. */
const LARGE = 1 << 18;

export class TemplateTools {
  readonly #known = new Map<string, TemplateTool[]>();

  /**
   * Returns all text of the definitions in one string, with JSON escapes decoded where needed, so that the shield can
   * choose a guard that does not occur in it. Throws ApiError 422.
   */
  textOf(tools: readonly ToolDefinition[]): string {
    tools.forEach(({ parameters }, index) => {
      if (!isShallow(parameters, MAX_DEPTH))
        throw apiError(
          'invalid_json_schema',
          `tools[${index}]: the schema is nested more than ${MAX_DEPTH} levels deep.`,
          `tools[${index}]`,
        );
    });
    return stringifyAsWritten(tools.map(({ name, description, parameters }) => [name, description, parameters]));
  }

  /** `text`: the result of textOf(). */
  forTemplate(tools: readonly ToolDefinition[], text: string, shield: Shield): TemplateTool[] {
    const key = String.fromCodePoint(shield.guard) + text;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const made = tools.map((tool) => toTemplateTool(tool, shield));
    if (text.length <= LARGE) {
      if (this.#known.size === REMEMBERED) this.#known.delete(this.#known.keys().next().value as string);
      this.#known.set(key, made);
    }
    return made;
  }
}

function toTemplateTool({ name, description, parameters }: ToolDefinition, shield: Shield): TemplateTool {
  return {
    type: 'function',
    function: {
      name: shield.protect(name),
      description: shield.protect(description ?? ''),
      parameters: shield.protectValue(completed(parameters ?? {})),
    },
  };
}

/**
 * Adds the members that templates expect, because templates iterate over the properties without checking that they
 * exist.
 */
function completed(parameters: Record<string, unknown>): Record<string, unknown> {
  const typed = Object.hasOwn(parameters, 'type') ? parameters : withMembers({ type: 'object' }, parameters);
  return (parameters['properties'] ?? null) === null ? withMembers(typed, { properties: {} }) : typed;
}
