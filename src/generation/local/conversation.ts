// Converts internal messages to a form that the model's template supports. If a template does not support later system
// messages, system messages at all, or tool calls, or requires alternating roles, the messages are restructured, so
// that no text is silently lost.
import { imageNote } from '../image-note.js';
import type { TemplateMessage } from './template/context.js';
import type { ReasoningMarkers } from './reasoning.js';
import type { ReplayMarks } from './replay/replay-marks.js';
import type { Shield } from './shield.js';
import type { TemplateCapabilities } from './template/probe.js';
import { CallArguments, parseObject, stringsIn } from './tools/call-arguments.js';
import type { ToolDialect } from './tools/dialect.js';
import type { Content, ImagePart, Message, ToolCall } from '../types.js';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;
type ToolMessage = Extract<Message, { role: 'tool' }>;

/** How a model's template handles conversations. */
export interface TemplateShape {
  readonly can: TemplateCapabilities;
  readonly dialect: ToolDialect;
  /** Set if past reasoning is part of the content, enclosed in these markers. */
  readonly inlineReasoning: ReasoningMarkers | null;
}

/** Returns the text of a message's content, with a note in place of each image. */
export function textOf(content: Content | null): string {
  if (content === null) return '';
  return typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : imageNote(part))).join('');
}

/**
 * Returns the text that replaces an image: a note for a model without a vision encoder, otherwise a marker of the
 * image's position.
 */
export type ImageText = (part: ImagePart) => string;

export interface ConversionOptions {
  readonly imageText?: ImageText;
  /** Inserts marks for the tool calls and reasoning blocks whose token IDs are recorded. */
  readonly marks?: ReplayMarks | null;
  /** The call IDs chosen by the model itself. */
  readonly ownIds?: ReadonlyMap<ToolCall, string>;
}

const JOIN = '\n\n';

/** Moves system text to a position where the template supports it. */
export function placeSystem(
  messages: readonly Message[],
  can: Pick<TemplateCapabilities, 'system'>,
): readonly Message[] {
  if (can.system === 'anywhere' || !messages.some(({ role }) => role === 'system')) return messages;
  const system = messages
    .filter((message) => message.role === 'system')
    .map(({ content }) => content)
    .join(JOIN);
  const others = messages.filter(({ role }) => role !== 'system');
  if (system === '') return others;
  return can.system === 'first' ? [{ role: 'system', content: system }, ...others] : foldIntoUser(system, others);
}

function foldIntoUser(system: string, messages: readonly Message[]): Message[] {
  const first = messages[0];
  if (first?.role !== 'user') return [{ role: 'user', content: system }, ...messages];
  const content: Content =
    typeof first.content === 'string'
      ? system + JOIN + first.content
      : [{ type: 'text', text: system + JOIN }, ...first.content];
  return [{ ...first, content }, ...messages.slice(1)];
}

/** Adds server-generated text to the system text of converted messages. */
export function addSystemText(
  messages: TemplateMessage[],
  text: string,
  can: Pick<TemplateCapabilities, 'system'>,
): TemplateMessage[] {
  const first = messages[0];
  const role = can.system === 'none' ? 'user' : 'system';
  if (first?.role !== role) return [{ role, content: text }, ...messages];
  const content = role === 'system' ? first.content + JOIN + text : text + JOIN + first.content;
  return [{ ...first, content }, ...messages.slice(1)];
}

/** Yields every string in a conversation that the client has supplied. */
export function* clientTexts(messages: readonly Message[]): Generator<string> {
  for (const message of messages) {
    if (message.content !== null) yield textOf(message.content);
    if ('name' in message && message.name !== undefined) yield message.name;
    if (message.role === 'tool') yield message.toolCallId;
    if (message.role !== 'assistant') continue;
    if (message.reasoning !== undefined) yield message.reasoning;
    for (const call of message.toolCalls ?? []) {
      yield call.id;
      yield call.name;
      yield call.arguments;
      // The parsed arguments are included as well, because parsing turns escapes such as \ufdd0 into characters.
      const parsed = parseObject(call.arguments);
      if (parsed !== null) yield* stringsIn(parsed);
    }
  }
}

/**
 * Returns the template's messages with all client text shielded. A template with a field for reasoning gets all past
 * reasoning and decides how much of it to show. For other templates, reasoning is included only after the last user
 * message, that is, in the running tool loop.
 */
export function toTemplateMessages(
  messages: readonly Message[],
  shield: Shield,
  shape: TemplateShape,
  { imageText = imageNote, marks = null, ownIds = new Map() }: ConversionOptions = {},
): TemplateMessage[] {
  const folder = new Folder(shield, shape, { imageText, marks, ownIds });
  const lastUser = messages.findLastIndex((message) => message.role === 'user');
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index] as Message;
    if (message.role !== 'assistant' || !message.toolCalls?.length) {
      folder.add(message, index > lastUser);
      continue;
    }
    const results: ToolMessage[] = [];
    for (let next = messages[index + 1]; next?.role === 'tool'; next = messages[++index + 1]) results.push(next);
    folder.addCalls(message, results, index > lastUser);
  }
  return shape.can.alternation ? mergeNeighbors(folder.messages) : folder.messages;
}

type CallMessage = NonNullable<TemplateMessage['tool_calls']>[number];

class Folder {
  readonly messages: TemplateMessage[] = [];
  readonly #args: CallArguments;
  readonly #ids = new Map<string, string>(); // client ID → ID in the form that the template accepts
  readonly #usedIds = new Set<string>(); // the values of #ids

  constructor(
    private readonly shield: Shield,
    private readonly shape: TemplateShape,
    private readonly options: Required<ConversionOptions>,
  ) {
    this.#args = new CallArguments(shield, shape.can);
  }

  add(message: Message, inLoop: boolean): void {
    const result: TemplateMessage = { role: message.role, content: this.#textOf(message.content) };
    if ('name' in message && message.name !== undefined) result.name = this.shield.protect(message.name);
    if (message.role === 'tool') result.tool_call_id = this.#id(message.toolCallId);
    if (message.role === 'assistant') this.#addReasoning(result, message, inLoop);
    this.messages.push(result);
  }

  /** Adds an assistant message with calls and their results, in the order of the calls. */
  addCalls(message: AssistantMessage, results: readonly ToolMessage[], inLoop: boolean): void {
    const { can, dialect } = this.shape;
    const calls = message.toolCalls ?? [];
    const answers = inOrderOf(
      calls.map(({ id }) => id),
      results,
    );
    const said: TemplateMessage = { role: 'assistant', content: this.#textOf(message.content) };
    if (message.name !== undefined) said.name = this.shield.protect(message.name);
    this.#addReasoning(said, message, inLoop);
    const losesText = !can.callText && said.content.trim() !== '';
    if (!dialect.showsCalls || (losesText && can.alternation)) {
      this.#addAsText(said, message, [...answers.values()].flat());
      return;
    }
    if (losesText) this.messages.push({ ...said });
    if (losesText) said.content = '';
    const together = can.calls === 'many' ? [calls] : calls.map((call) => [call]);
    together.forEach((some, index) => {
      const tool_calls = some.map(
        (call): CallMessage => ({
          id: this.#idOfCall(call),
          type: 'function',
          function: { name: this.#nameOf(call), arguments: this.#args.forTemplate(call.arguments) },
        }),
      );
      this.messages.push(index === 0 ? { ...said, tool_calls } : { role: 'assistant', content: '', tool_calls });
      for (const { id, name } of some) {
        for (const answer of answers.get(id) ?? []) {
          this.messages.push({
            role: 'tool',
            name: this.shield.protect(name),
            tool_call_id: this.#id(id),
            content: this.#resultText(answer),
          });
        }
      }
    });
  }

  /** For templates without tool calls: writes calls as assistant text and results as user text. */
  #addAsText(said: TemplateMessage, message: AssistantMessage, results: readonly ToolMessage[]): void {
    const calls = (message.toolCalls ?? []).map((call) => ({
      name: this.#nameOf(call),
      arguments: this.#args.asText(call.arguments),
    }));
    const written = this.shape.dialect.syntax.write(calls);
    this.messages.push({ ...said, content: said.content === '' ? written : `${said.content}\n${written}` });
    if (results.length === 0) return;
    const content = results
      .map((result) => `<tool_response>\n${this.#resultText(result)}\n</tool_response>`)
      .join('\n');
    this.messages.push({ role: 'user', content });
  }

  #nameOf(call: ToolCall): string {
    const mark = this.shape.can.callIds === 'numbered' ? '' : (this.options.marks?.call(call) ?? '');
    return mark + this.shield.protect(call.name);
  }

  /** Shields each client text separately, because the image marks between them must not be shielded. */
  #textOf(content: Content | null): string {
    if (content === null || typeof content === 'string') return this.shield.protect(content ?? '');
    return content
      .map((part) => (part.type === 'text' ? this.shield.protect(part.text) : this.options.imageText(part)))
      .join('');
  }

  #resultText({ content, failed }: ToolMessage): string {
    const text = this.#textOf(content);
    return failed === true ? `Error: ${text}` : text;
  }

  #addReasoning(said: TemplateMessage, { reasoning }: AssistantMessage, inLoop: boolean): void {
    if (reasoning === undefined || reasoning === '') return;
    const { can, inlineReasoning } = this.shape;
    const shielded = this.shield.protect(reasoning);
    const text = this.options.marks?.reasoning(reasoning, shielded) ?? shielded;
    // A template with its own reasoning field may reject a message that has content as well as reasoning and calls.
    if (can.reasoningField === 'thinking' && said.content !== '') return;
    if (can.reasoningField !== null) said[can.reasoningField] = text;
    else if (inlineReasoning !== null && inLoop)
      said.content = `${inlineReasoning.open}\n${text}\n${inlineReasoning.close}\n\n${said.content}`;
  }

  /** Templates with IDs of the form functions.NAME:NUMBER show a call's name only as part of its ID. */
  #idOfCall(call: ToolCall): string {
    const id = this.#id(call.id, call.name, this.options.ownIds.get(call));
    if (this.shape.can.callIds !== 'numbered') return id;
    return id.replace('.', `.${this.options.marks?.call(call) ?? ''}`);
  }

  /**
   * Replaces IDs that the template rejects with consecutive numbers, so that the same beginning of a conversation
   * always gets the same IDs. `own`: the ID that the model chose for the call; used unless an earlier call has the same
   * ID.
   */
  #id(id: string, name = 'unknown', own?: string): string {
    const known = this.#ids.get(id);
    if (known !== undefined) return known;
    const given = this.#ownId(own) ?? this.#newId(id, name);
    this.#ids.set(id, given);
    this.#usedIds.add(given);
    return given;
  }

  #ownId(own: string | undefined): string | null {
    if (own === undefined || (this.shape.can.callIds === 'short' && !/^[A-Za-z0-9]{9}$/.test(own))) return null;
    const given = this.shield.protect(own);
    return this.#usedIds.has(given) ? null : given;
  }

  #newId(id: string, name: string): string {
    const { callIds } = this.shape.can;
    if (callIds === 'free') return this.shield.protect(id);
    for (let number = this.#ids.size; ; number++) {
      const given =
        callIds === 'numbered'
          ? `functions.${this.shield.protect(name)}:${number}`
          : `c${String(number).padStart(8, '0')}`;
      if (!this.#usedIds.has(given)) return given;
    }
  }
}

/**
 * Groups results by call, in the order of the calls, because some templates do not show which result belongs to which
 * call.
 */
function inOrderOf(ids: readonly string[], results: readonly ToolMessage[]): Map<string, ToolMessage[]> {
  const answers = new Map(ids.map((id): [string, ToolMessage[]] => [id, []]));
  for (const result of results) answers.get(result.toolCallId)?.push(result);
  return answers;
}

function mergeNeighbors(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const merged: TemplateMessage[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    const joins =
      last !== undefined &&
      last.role === message.role &&
      (message.role === 'user' ||
        (message.role === 'assistant' && last.tool_calls === undefined && message.tool_calls === undefined));
    if (joins)
      merged[merged.length - 1] = {
        ...last,
        ...message,
        content: [last.content, message.content].filter((text) => text !== '').join(JOIN),
      };
    else merged.push(message);
  }
  return merged;
}
