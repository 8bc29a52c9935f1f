// Converts a request's messages, tools and output format to the prompt text with the model's chat template. One
// instance per loaded model; has no per-request state. Event-loop thread only.
import { apiError, ApiError } from '../../shared/errors.js';
import type { ChatTemplate } from './template/chat-template.js';
import { copyNotation } from '../../shared/exact-json.js';
import { imageNote } from '../image-note.js';
import {
  addSystemText,
  clientTexts,
  type ConversionOptions,
  placeSystem,
  toTemplateMessages,
  type TemplateShape,
} from './conversation.js';
import { formatInstruction } from './format-instruction.js';
import { ImageMarks, type MarkedText } from './image-marks.js';
import type { ReasoningMarkers } from './reasoning.js';
import { Shield, type Starters } from './shield.js';
import { budgetFor, RenderBudget, TemplateError } from './template/limits.js';
import { type FoundItems, ReplayMarks, type ReplayMarksOptions, type ReplayedItems } from './replay/replay-marks.js';
import type { TemplateContext, TemplateMessage } from './template/context.js';
import { keepsInlineReasoning } from './template/probe.js';
import { type ToolDialect, describeTools } from './tools/dialect.js';
import { stringsIn } from './tools/call-arguments.js';
import { TemplateTools } from './tools/template-tools.js';
import type { GenerationRequest, Message, ToolCall } from '../types.js';

/**
 * Maximum number of attempts to replay calls with the IDs that the model chose. Each attempt omits the IDs of the calls
 * that the previous one could not replay. After the last attempt, no such IDs are used.
 */
const MAX_ID_TRIES = 3;

/** The request fields that affect the prompt text. */
export type PromptRequest = Pick<
  GenerationRequest,
  'messages' | 'tools' | 'format' | 'continueFinal' | 'promptParam' | 'templateVariables'
>;

/** `effort`: the template's word for the reasoning effort, if it should be set. */
export interface PromptReasoning {
  readonly thinking: boolean;
  readonly effort?: string | undefined;
}

/** `replays`: the recorded token IDs of the conversation's tool calls and reasoning blocks, by key. */
export interface PromptStyle extends PromptReasoning {
  readonly replays?: ReadonlyMap<string, Int32Array> | undefined;
}

/**
 * `text`: the whole prompt with image marks. `texts` and `images`: the same prompt, split at the images. There are no
 * images without a vision encoder.
 */
export interface PromptText extends MarkedText {
  readonly text: string;
  readonly guard: number;
  /**
   * `texts` with a mark in place of each tool call and reasoning block whose recorded token IDs are inserted
   * (replayed). Null if no token IDs are replayed.
   */
  readonly replayed: { readonly texts: readonly string[]; readonly items: ReplayedItems } | null;
}

type BudgetOf = (context: TemplateContext) => RenderBudget;
type Render = (images: ImageMarks, options: Omit<ConversionOptions, 'imageText'>, budgetOf: BudgetOf) => string;

export class PromptWriter {
  readonly #shape: TemplateShape;
  readonly #markers: ReasoningMarkers | null;
  readonly #tools = new TemplateTools();

  constructor(
    private readonly template: ChatTemplate,
    dialect: ToolDialect,
    markers: ReasoningMarkers | null,
    private readonly starters: Starters | null,
    private readonly sees = false,
  ) {
    this.#markers = markers;
    const can = template.capabilities;
    const inline = markers !== null && !can.reasoningField && keepsInlineReasoning(template, markers);
    this.#shape = { can, dialect, inlineReasoning: inline ? markers : null };
  }

  /**
   * Renders the prompt. `decode`: detokenizes recorded token IDs. Throws ApiError 422 if the template rejects the
   * messages or drops the message to continue.
   */
  write(
    request: PromptRequest,
    { thinking, effort, replays }: PromptStyle,
    decode: (ids: Int32Array) => string = () => '',
  ): PromptText {
    const { can, dialect } = this.#shape;
    const toolText = request.tools.length === 0 ? '' : this.#tools.textOf(request.tools);
    const instruction = formatInstruction(request.format);
    const variables = request.templateVariables ?? {};
    const shield = Shield.for(
      [...clientTexts(request.messages), ...stringsIn(variables), toolText, instruction ?? ''],
      this.starters,
    );
    if (shield === null) {
      throw apiError(
        'invalid_value',
        `${request.promptParam} must leave at least one private-use character unused.`,
        request.promptParam,
      );
    }
    const tools = request.tools.length === 0 ? null : this.#tools.forTemplate(request.tools, toolText, shield);
    const placed = placeSystem(request.messages, can);
    const render: Render = (images, options, budgetOf): string => {
      const imageText = this.sees ? images.mark : imageNote;
      let messages = toTemplateMessages(placed, shield, this.#shape, { ...options, imageText });
      if (tools !== null && !dialect.showsTools)
        messages = addSystemText(messages, describeTools(tools, dialect.syntax), can);
      if (instruction !== null) messages = addSystemText(messages, shield.protect(instruction), can);
      const context = {
        tools: dialect.showsTools ? tools : null,
        addGenerationPrompt: !request.continueFinal,
        enableThinking: thinking,
        effort,
        variables: protectedValues(variables, shield),
        guard: shield.guard,
      };
      return this.#render(request, messages, context, budgetOf);
    };
    const images = new ImageMarks(shield.guard);
    let text: string;
    try {
      text = render(images, {}, budgetFor);
    } catch (error) {
      if (error instanceof TemplateError) throw this.#refusal(request, error);
      throw error;
    }
    const marked = images.split(text);
    if (marked === null)
      throw apiError(
        'invalid_value',
        `The model's chat template must show every image of ${request.promptParam} exactly once.`,
        request.promptParam,
      );
    let replayBudget: RenderBudget | null = null;
    const replayed =
      replays === undefined || replays.size === 0
        ? null
        : this.#replayed(text, { guard: shield.guard, replays, request, decode }, (options) =>
            render(new ImageMarks(shield.guard), options, (context) => (replayBudget ??= budgetFor(context))),
          );
    const texts = replayed === null ? null : images.split(replayed.text);
    return {
      ...marked,
      text,
      guard: shield.guard,
      replayed: replayed === null || texts === null ? null : { texts: texts.texts, items: replayed.items },
    };
  }

  /**
   * Returns the prompt with a mark in place of each replayed item, together with the items. `text`: the prompt without
   * marks, which is rendered a second time with marks. The prompt is built from the text without marks, because a
   * template may change a marked text. If the model chose the IDs of its calls, they replace this server's IDs, but
   * only in replayed calls. If the template rejects these IDs, items without IDs are still replayed. `render` must
   * limit the total cost of its calls.
   */
  #replayed(
    text: string,
    options: ReplayMarksOptions,
    render: (options: Omit<ConversionOptions, 'imageText'>) => string,
  ): FoundItems | null {
    const { syntax } = this.#shape.dialect;
    const found = (ownIds: ReadonlyMap<ToolCall, string>): FoundItems | null => {
      try {
        const marks = new ReplayMarks(options);
        const plain = ownIds.size === 0 ? text : render({ ownIds });
        return marks.found(render({ ownIds, marks }), plain, syntax, this.#markers);
      } catch (error) {
        // The template rejects the marks or the model's IDs, or the budget is exhausted.
        if (error instanceof ApiError || error instanceof TemplateError) return null;
        throw error;
      }
    };
    let sections = new ReplayMarks(options).sections(syntax);
    for (let tries = 0; tries < MAX_ID_TRIES && sections.length > 0; tries++) {
      const items = found(new Map(sections.flatMap(({ ids }) => [...ids])));
      const names = new Set(items?.items.map(({ name }) => name));
      const kept = sections.filter(({ name }) => names.has(name));
      if (kept.length === sections.length) return items;
      sections = kept;
    }
    return found(new Map());
  }

  /**
   * Throws TemplateError if the template rejects the messages, and ApiError 422 if it drops the message to continue.
   */
  #render(
    request: PromptRequest,
    messages: TemplateMessage[],
    context: Omit<TemplateContext, 'messages'> & { guard: number },
    budgetOf: BudgetOf,
  ): string {
    // The end of a continued message is found with the help of a mark that cannot occur in a text: in texts, a guard
    // follows only a character that starts a special token.
    const mark = String.fromCodePoint(context.guard).repeat(4);
    const last = messages.at(-1);
    if (request.continueFinal && last !== undefined) last.content += mark;
    const whole = { ...context, messages };
    const text = this.template.render(whole, budgetOf(whole));
    if (!request.continueFinal) return text;
    const end = text.lastIndexOf(mark);
    if (end === -1)
      throw apiError(
        'unsupported_value',
        "continue_final_message: the model's chat template drops the last message.",
        'continue_final_message',
      );
    return text.slice(0, end);
  }

  /**
   * Finds the first message that the template rejects by rendering increasingly long beginnings of the conversation.
   * Together, these renders cost at most one render budget.
   */
  #refusal({ messages, promptParam }: PromptRequest, error: TemplateError): ApiError {
    if (error.exhausted)
      return apiError(
        'invalid_value',
        `The model's chat template cannot be used on ${promptParam}: ${error.message}.`,
        promptParam,
      );
    const budget = new RenderBudget();
    let at = messages.length - 1;
    for (let length = 1; length < Math.min(messages.length, 64); length++) {
      const refused = this.#refuses(messages.slice(0, length), budget);
      if (refused === null) break;
      if (!refused) continue;
      at = length - 1;
      break;
    }
    const message = messages[at];
    const path = message?.path ?? `${promptParam}[${at}]`;
    return apiError(
      'invalid_value',
      `The model's chat template rejects ${path} (role ${message?.role ?? 'unknown'}): ${error.message.slice(0, 200)}`,
      path,
    );
  }

  /** Returns null if the budget was exhausted before the message was found. */
  #refuses(messages: readonly Message[], budget: RenderBudget): boolean | null {
    const shield = Shield.for([], null) as Shield;
    const folded: TemplateMessage[] = toTemplateMessages(placeSystem(messages, this.#shape.can), shield, this.#shape);
    try {
      this.template.render({ messages: folded, tools: null, addGenerationPrompt: true, enableThinking: false }, budget);
      return false;
    } catch (error) {
      return error instanceof TemplateError && error.exhausted ? null : true;
    }
  }
}

/** The names of the variables are not shielded, because the template looks up the variables by name. */
function protectedValues(variables: Readonly<Record<string, unknown>>, shield: Shield): Record<string, unknown> {
  const copy = Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, shield.protectValue(value)]));
  copyNotation(variables, copy, (name) => name);
  return copy;
}
