// Renders a model's chat template (Jinja, from the GGUF file) within limits (limits.ts) and with access to nothing but
// its input. One instance per loaded model; event-loop thread only.
import type { TemplateContext, TemplateTool } from './context.js';
import { budgetFor, RenderBudget, TEMPLATE_LIMITS, TemplateError } from './limits.js';
import { TemplateEfforts } from './effort.js';
import { plainContext, probe, toolFailure, type TemplateCapabilities } from './probe.js';
import { Program } from './program.js';
import { Run, type KnownJson } from './run.js';
import { Dict, toValue, type List, type Value } from './values.js';

/** The template for model files without one: ChatML, the most common format. */
export const CHATML_TEMPLATE =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}' +
  '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

export class ChatTemplate {
  readonly capabilities: TemplateCapabilities;
  readonly efforts: TemplateEfforts;
  /** Why the template fails if it is given tools; null if it does not fail. */
  readonly toolProblem: string | null;
  readonly #program: Program;
  readonly #tokens: readonly (readonly [name: string, value: Value])[];
  readonly #trials: RenderBudget; // for all trial renders while the model is loaded
  #tools = new WeakMap<TemplateTool[], Value>(); // as template values, cached because the same tools recur
  readonly #json: KnownJson = new WeakMap();
  readonly #generationPrompts = new Map<string, string>(); // by reasoning mode and effort
  /**
   * The value of `tools` for requests without tools. An empty list for templates that iterate over tools without
   * checking that there are any.
   */
  #noTools: [] | null = null;

  /** Throws TemplateError if the source does not parse or cannot render one plain user message. */
  constructor(
    private readonly source: string,
    tokens: { bos: string | null; eos: string | null },
  ) {
    const { characters } = TEMPLATE_LIMITS;
    if (source.length > characters) throw new TemplateError(`chat template is longer than ${characters} characters`);
    try {
      this.#program = new Program(source);
    } catch (error) {
      throw new TemplateError(`chat template does not parse: ${reasonOf(error)}`);
    }
    this.#tokens = [
      ['bos_token', tokens.bos ?? ''],
      ['eos_token', tokens.eos ?? ''],
    ];
    this.#trials = new RenderBudget();
    const plain = this.#renderPlain();
    this.efforts = new TemplateEfforts(source, (effort, enableThinking) => this.#attempt(effort, enableThinking));
    this.capabilities = probe((context) => this.try(context), plain);
    this.toolProblem = this.capabilities.tools ? null : toolFailure((context) => this.try(context));
  }

  /** Whether the source contains this name. */
  mentions(name: string): boolean {
    return new RegExp(`\\b${name}\\b`).test(this.source);
  }

  /**
   * Returns the prompt text. Throws TemplateError, whose message is the template's own if the template raised an error.
   */
  render(context: TemplateContext, budget = budgetFor(context)): string {
    const { enableThinking, effort, variables: given = {} } = context;
    const variables: [name: string, value: Value][] = [
      ['documents', null],
      ['messages', toValue(context.messages)],
      ['tools', this.#toolsValue(context.tools)],
      ['add_generation_prompt', context.addGenerationPrompt],
      ['enable_thinking', enableThinking],
      ['thinking', enableThinking], // the same setting for DeepSeek V3.1, Kimi and Granite
      ['thinking_mode', enableThinking ? 'enabled' : 'disabled'], // the same setting for MiniMax M3
      ...(effort === undefined ? [] : [['reasoning_effort', effort] satisfies [string, Value]]),
      ...([...(toValue(given) as Dict).entries()] as [string, Value][]),
    ];
    const guard = context.guard === undefined ? '' : String.fromCodePoint(context.guard);
    const run = new Run(budget, () => new Date(), guard);
    run.json = this.#json;
    try {
      return this.#program.render(run, [...this.#tokens, ...variables]);
    } catch (error) {
      if (error instanceof TemplateError) throw error;
      throw new TemplateError(`line ${run.line}: ${reasonOf(error)}`);
    } finally {
      if (run.changedInput) this.#tools = new WeakMap();
    }
  }

  /** The text that the template puts at the start of a response, or '' if it cannot be determined. */
  generationPrompt(enableThinking: boolean, effort: string | undefined): string {
    const key = `${enableThinking} ${effort ?? ''}`;
    let text = this.#generationPrompts.get(key);
    if (text === undefined)
      this.#generationPrompts.set(key, (text = this.#findGenerationPrompt(enableThinking, effort)));
    return text;
  }

  #findGenerationPrompt(enableThinking: boolean, effort: string | undefined): string {
    const context = { ...plainContext, enableThinking, effort };
    try {
      const prompted = this.render({ ...context, addGenerationPrompt: true });
      const without = this.render({ ...context, addGenerationPrompt: false });
      return prompted.startsWith(without) ? prompted.slice(without.length) : '';
    } catch (error) {
      if (error instanceof TemplateError) return '';
      throw error;
    }
  }

  /** Like render(), but for artificial conversations that probe the template's behavior. */
  try(context: TemplateContext): string {
    return this.render(context, this.#trials);
  }

  /** Returns null if the template fails. */
  #attempt(effort: string | undefined, enableThinking: boolean): string | null {
    try {
      return this.try({ ...plainContext, enableThinking, effort });
    } catch (error) {
      if (error instanceof TemplateError && error.exhausted) throw error;
      return null;
    }
  }

  #toolsValue(tools: TemplateTool[] | null): Value {
    if (tools === null) return this.#noTools;
    let value = this.#tools.get(tools);
    if (value === undefined) {
      this.#tools.set(tools, (value = toValue(tools)));
      this.#remember(value);
    }
    return value;
  }

  /**
   * Registers the list of tools, each tool and its function in the JSON cache, because templates serialize them on
   * every render.
   */
  #remember(tools: Value): void {
    for (const tool of tools as List) {
      this.#json.set(tool as object, null);
      const definition = (tool as Dict).get('function');
      if (definition instanceof Dict) this.#json.set(definition, null);
    }
    this.#json.set(tools as object, null);
  }

  /** Checks that the template renders a user message, with either null or an empty list as `tools`. */
  #renderPlain(): string {
    const plain = (): string => this.try(plainContext);
    let text: string;
    try {
      text = plain();
    } catch (error) {
      try {
        if (error instanceof TemplateError && error.exhausted) throw error;
        this.#noTools = [];
        text = plain();
      } catch {
        throw new TemplateError(`chat template cannot render one user message: ${reasonOf(error)}`);
      }
    }
    if (!text.includes('probe-one')) throw new TemplateError('chat template drops the user message');
    return text;
  }
}

/** The depth of recursion in a template is limited only by the call stack. */
function reasonOf(error: unknown): string {
  if (error instanceof RangeError && error.message.includes('call stack'))
    return 'it is nested too deeply or recurses endlessly';
  return error instanceof Error ? error.message : String(error);
}
