// From the internal messages to the shape a particular model's template can express: where it has no slot
// for a later system message, none for system at all, none for tool calls, or insists on alternation, the
// conversation is refolded so that no text is ever lost silently.
import { imageNote } from '../image-note.js';
import type { TemplateMessage } from './template-context.js';
import type { ReasoningMarkers } from './reasoning.js';
import type { Shield } from './shield.js';
import type { TemplateCapabilities } from './template-probe.js';
import { CallArguments, parseObject, stringsIn } from './tools/call-arguments.js';
import type { ToolDialect } from './tools/dialect.js';
import type { Content, ImagePart, Message } from '../types.js';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;
type ToolMessage = Extract<Message, { role: 'tool' }>;

/** What a model's template makes of a conversation. */
export interface TemplateShape {
  readonly can: TemplateCapabilities;
  readonly dialect: ToolDialect;
  /** Set if past reasoning is shown within the content, between these. */
  readonly inlineReasoning: ReasoningMarkers | null;
}

/** The text of a content, with a note in each image's place. */
export function textOf(content: Content | null): string {
  if (content === null) return '';
  return typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : imageNote(part))).join('');
}

/** Text in the place of an image: what a model without vision is given to know of it, or a mark of where it stands. */
export type ImageText = (part: ImagePart) => string;

const JOIN = '\n\n';

/** Puts system text where the template takes it. */
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

/** Adds our own text to the system text of finished messages. */
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

/** Every string of a conversation that comes from the client. */
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
      // Escapes such as \ufdd0 become characters when the arguments are parsed.
      const parsed = parseObject(call.arguments);
      if (parsed !== null) yield* stringsIn(parsed);
    }
  }
}

/**
 * The template's messages, all client text shielded; beside them the arguments that `restore()` puts into the
 * rendered text. Past reasoning goes back to the model only after the last user message: that is the running
 * tool loop, the one place where it still matters.
 */
export function toTemplateMessages(
  messages: readonly Message[],
  shield: Shield,
  shape: TemplateShape,
  imageText: ImageText = imageNote,
): { messages: TemplateMessage[]; args: CallArguments } {
  const folder = new Folder(shield, shape, imageText);
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
  return { messages: shape.can.alternation ? mergeNeighbours(folder.messages) : folder.messages, args: folder.args };
}

type CallMessage = NonNullable<TemplateMessage['tool_calls']>[number];

class Folder {
  readonly messages: TemplateMessage[] = [];
  readonly args: CallArguments;
  readonly #ids = new Map<string, string>(); // as the template takes them

  constructor(
    private readonly shield: Shield,
    private readonly shape: TemplateShape,
    private readonly imageText: ImageText,
  ) {
    this.args = new CallArguments(shield, shape.can);
  }

  add(message: Message, inLoop: boolean): void {
    const result: TemplateMessage = { role: message.role, content: this.#textOf(message.content) };
    if ('name' in message && message.name !== undefined) result.name = this.shield.protect(message.name);
    if (message.role === 'tool') result.tool_call_id = this.#id(message.toolCallId);
    if (message.role === 'assistant' && inLoop) this.#addReasoning(result, message);
    this.messages.push(result);
  }

  /** An assistant message with calls, and what answers them in the order of the calls. */
  addCalls(message: AssistantMessage, results: readonly ToolMessage[], inLoop: boolean): void {
    const { can, dialect } = this.shape;
    const calls = message.toolCalls ?? [];
    const answers = inOrderOf(
      calls.map(({ id }) => id),
      results,
    );
    const said: TemplateMessage = { role: 'assistant', content: this.#textOf(message.content) };
    if (message.name !== undefined) said.name = this.shield.protect(message.name);
    if (inLoop) this.#addReasoning(said, message);
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
          id: this.#id(call.id, call.name),
          type: 'function',
          function: { name: this.shield.protect(call.name), arguments: this.args.forTemplate(call.arguments) },
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

  /** For templates without a place for calls: written as the model would have, answered by the user. */
  #addAsText(said: TemplateMessage, message: AssistantMessage, results: readonly ToolMessage[]): void {
    const calls = (message.toolCalls ?? []).map((call) => ({
      name: this.shield.protect(call.name),
      arguments: this.args.asText(call.arguments),
    }));
    const written = this.shape.dialect.syntax.write(calls);
    this.messages.push({ ...said, content: said.content === '' ? written : `${said.content}\n${written}` });
    if (results.length === 0) return;
    const content = results
      .map((result) => `<tool_response>\n${this.#resultText(result)}\n</tool_response>`)
      .join('\n');
    this.messages.push({ role: 'user', content });
  }

  /** The client's texts shielded, each for itself: what stands for an image between them is ours. */
  #textOf(content: Content | null): string {
    if (content === null || typeof content === 'string') return this.shield.protect(content ?? '');
    return content
      .map((part) => (part.type === 'text' ? this.shield.protect(part.text) : this.imageText(part)))
      .join('');
  }

  #resultText({ content, failed }: ToolMessage): string {
    const text = this.#textOf(content);
    return failed === true ? `Error: ${text}` : text;
  }

  #addReasoning(said: TemplateMessage, { reasoning }: AssistantMessage): void {
    if (reasoning === undefined || reasoning === '') return;
    const { can, inlineReasoning } = this.shape;
    const text = this.shield.protect(reasoning);
    // A template that has reasoning of its own beside calls may refuse a text beside both.
    if (can.reasoningField === 'thinking' && said.content !== '') return;
    if (can.reasoningField !== null) said[can.reasoningField] = text;
    else if (inlineReasoning !== null)
      said.content = `${inlineReasoning.open}\n${text}\n${inlineReasoning.close}\n\n${said.content}`;
  }

  /** Ids the template refuses are numbered through: the same beginning of a conversation gets the same numbers. */
  #id(id: string, name = 'unknown'): string {
    const { callIds } = this.shape.can;
    if (callIds === 'free') return this.shield.protect(id);
    let known = this.#ids.get(id);
    if (known === undefined) {
      const number = this.#ids.size;
      known =
        callIds === 'numbered'
          ? `functions.${this.shield.protect(name)}:${number}`
          : `c${String(number).padStart(8, '0')}`;
      this.#ids.set(id, known);
    }
    return known;
  }
}

/** Results by the call they answer, in the calls' order: not every template shows which is whose. */
function inOrderOf(ids: readonly string[], results: readonly ToolMessage[]): Map<string, ToolMessage[]> {
  const answers = new Map(ids.map((id): [string, ToolMessage[]] => [id, []]));
  for (const result of results) answers.get(result.toolCallId)?.push(result);
  return answers;
}

function mergeNeighbours(messages: readonly TemplateMessage[]): TemplateMessage[] {
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
