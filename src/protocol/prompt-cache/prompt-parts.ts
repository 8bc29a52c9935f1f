// Hashes of the parts of a request that determine its prompt, which show why two prompts differ. No side effects.
import { hash } from 'node:crypto';
import type { Content, GenerationRequest, Message } from '../../generation/types.js';

/** The parts, in storage order. */
const PARTS = ['model', 'tools', 'system', 'format', 'effort', 'verbosity', 'compaction', 'variables'] as const;
export type PromptPart = (typeof PARTS)[number] | 'messages';

/**
 * Number of stored integers: two for the hash of each part, two for the hash of the messages, and one for the number of
 * messages.
 */
export const PART_INTS = 2 * PARTS.length + 3;
const MESSAGES = 2 * PARTS.length;
const COUNT = MESSAGES + 2;

export interface PromptSource {
  readonly request: GenerationRequest;
  /** Identifies the model and its weights. */
  readonly model: string;
  /** Number of summaries of compacted conversations that the request contains. */
  readonly compactions: number;
}

export class PromptParts {
  /** The hashes in the form stored for later requests. */
  readonly ints = new Int32Array(PART_INTS);
  /** `#messages[n]` is the hash of the first n messages. */
  readonly #messages: Buffer[] = [Buffer.alloc(20)];

  constructor({ request, model, compactions }: PromptSource) {
    const { messages, tools, format, templateVariables = {} } = request;
    const { verbosity, ...variables } = templateVariables;
    const start = messages.findIndex(({ role }) => role !== 'system');
    const system = start === -1 ? messages.length : start;
    const values: Record<(typeof PARTS)[number], unknown> = {
      model,
      tools: tools.map(({ name, description, parameters, custom }) => [name, description, parameters, custom?.grammar]),
      system: messages.slice(0, system).map(({ content }) => content),
      format: 'path' in format ? { ...format, path: null } : format,
      effort: [request.effort, request.promptEffort, request.reasoningBudget],
      verbosity,
      compaction: compactions,
      variables,
    };
    for (const [index, part] of PARTS.entries()) this.#put(2 * index, digestOf(JSON.stringify(values[part]) ?? ''));
    let chain = this.#messages[0] as Buffer;
    for (const message of messages.slice(system)) {
      chain = digestOf(chain.toString('latin1') + JSON.stringify(contentOf(message)));
      this.#messages.push(chain);
    }
    this.#put(MESSAGES, chain);
    this.ints[COUNT] = this.#messages.length - 1;
  }

  /**
   * Returns the parts that differ from an earlier request. The messages count as different unless this request only
   * appends messages.
   */
  changedSince(earlier: Int32Array): Set<PromptPart> {
    const changed = new Set<PromptPart>(
      PARTS.filter((_, at) => earlier[2 * at] !== this.ints[2 * at] || earlier[2 * at + 1] !== this.ints[2 * at + 1]),
    );
    const common = this.#messages[earlier[COUNT] as number];
    if (
      common === undefined ||
      common.readInt32LE(0) !== earlier[MESSAGES] ||
      common.readInt32LE(4) !== earlier[MESSAGES + 1]
    )
      changed.add('messages');
    return changed;
  }

  #put(at: number, digest: Buffer): void {
    this.ints[at] = digest.readInt32LE(0);
    this.ints[at + 1] = digest.readInt32LE(4);
  }
}

const digestOf = (text: string): Buffer => hash('sha1', text, 'buffer');

function contentOf(message: Message): unknown[] {
  return [
    message.role,
    message.content === null ? null : textOf(message.content),
    'name' in message ? message.name : undefined,
    'reasoning' in message ? message.reasoning : undefined,
    'toolCalls' in message ? message.toolCalls : undefined,
    'toolCallId' in message ? message.toolCallId : undefined,
  ];
}

/** Images are represented only by their size; the keys of their positions distinguish images of the same size. */
function textOf(content: Content): unknown {
  if (typeof content === 'string') return content;
  return content.map((part) => {
    if (part.type === 'text') return part.text;
    const { source, detail } = part;
    return source.kind === 'loaded'
      ? [detail, source.image.width, source.image.height, source.image.bytes.length]
      : detail;
  });
}
