// A request's tools in the shape templates expect, all client text shielded. The same tools come with every
// request of a conversation: what they become is remembered. Event-loop thread only.
import { apiError } from '../../../shared/errors.js';
import { stringifyExact } from '../../../shared/exact-json.js';
import type { TemplateTool } from '../template-context.js';
import type { Shield } from '../shield.js';
import type { ToolDefinition } from '../../types.js';
import { isShallow, protectDeep } from './call-arguments.js';

const MAX_DEPTH = 256;
const REMEMBERED = 32;
/** Characters of definitions beyond which they are not worth keeping. */
const LARGE = 1 << 18;

export class TemplateTools {
  readonly #known = new Map<string, TemplateTool[]>();

  /** All text of the definitions in one string, escapes of special characters undone or not: for the shield's choice of a guard. Throws ApiError 422. */
  textOf(tools: readonly ToolDefinition[]): string {
    tools.forEach(({ parameters }, index) => {
      if (!isShallow(parameters, MAX_DEPTH))
        throw apiError(
          'invalid_json_schema',
          `tools[${index}]: the schema is nested deeper than ${MAX_DEPTH} levels.`,
          `tools[${index}]`,
        );
    });
    return stringifyExact(tools.map(({ name, description, parameters }) => [name, description, parameters]));
  }

  /** `text`: what textOf() made of them. */
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
  // Templates walk through the properties without asking whether there are any.
  const schema = { type: 'object', ...parameters, properties: parameters?.['properties'] ?? {} };
  return {
    type: 'function',
    function: {
      name: shield.protect(name),
      description: shield.protect(description ?? ''),
      parameters: protectDeep(schema, shield) as Record<string, unknown>,
    },
  };
}
