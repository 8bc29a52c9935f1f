// Rendering a model's chat template (Jinja, from the GGUF) under a time limit and without reach beyond
// its own input. One per loaded model; event-loop thread only.
import { Environment, parseTemplate, RenderTimeout, TemplateInterpreter, valueOf, type Program, type Value } from './template-interpreter.js';
import { probe, type TemplateCapabilities } from './template-probe.js';

/** A message in the shape chat templates expect (the Hugging Face convention). */
export interface TemplateMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  name?: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
  tool_call_id?: string;
}

/** A tool definition in the same convention. */
export interface TemplateTool {
  type: 'function';
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

export interface TemplateContext {
  messages: TemplateMessage[];
  tools: TemplateTool[] | null;
  addGenerationPrompt: boolean;
  enableThinking: boolean;
}

/** The template refused this conversation (raise_exception), took too long, or grew too large. */
export class TemplateError extends Error {
  /** Set when it was stopped for running too long: rendering again would cost as much. */
  readonly timedOut: boolean;

  constructor(message: string, timedOut = false) {
    super(message);
    this.timedOut = timedOut;
  }
}

/** Used when a file has no template of its own: ChatML, the most common convention. */
export const CHATML_TEMPLATE =
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const RENDER_TIMEOUT_MS = 2_000;
const MAX_TEMPLATE_CHARS = 1 << 20;
const MAX_RANGE = 100_000;

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  if (!Number.isInteger(step) || step === 0) throw new TemplateError('range(): step must be a non-zero integer');
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!(count <= MAX_RANGE)) throw new TemplateError(`range(): more than ${MAX_RANGE} numbers`);
  return Array.from({ length: count }, (_, i) => from + i * step);
}

function strftimeNow(format: string): string {
  const now = new Date();
  const two = (n: number) => String(n).padStart(2, '0');
  const month = (style: 'long' | 'short') => new Intl.DateTimeFormat('en-US', { month: style }).format(now);
  const fields: Record<string, () => string> = {
    Y: () => String(now.getFullYear()), m: () => two(now.getMonth() + 1), d: () => two(now.getDate()),
    B: () => month('long'), b: () => month('short'), H: () => two(now.getHours()), M: () => two(now.getMinutes()),
    '%': () => '%',
  };
  return format.replace(/%(.)/g, (whole, letter: string) => fields[letter]?.() ?? whole);
}

export class ChatTemplate {
  readonly capabilities: TemplateCapabilities;
  readonly #program: Program;
  readonly #globals = new Environment();   // what every render has alike
  readonly #tools = new WeakMap<TemplateTool[], Value>();   // as values: the same ones come again and again
  /** What the template takes for "no tools"; some walk through them without asking whether there are any. */
  #noTools: [] | null = null;

  /** Throws TemplateError if the source does not parse or cannot render one plain user message. */
  constructor(source: string, tokens: { bos: string | null; eos: string | null }) {
    if (source.length > MAX_TEMPLATE_CHARS) throw new TemplateError(`chat template is longer than ${MAX_TEMPLATE_CHARS} characters`);
    try {
      this.#program = parseTemplate(source);
    } catch (error) {
      throw new TemplateError(`chat template does not parse: ${messageOf(error)}`);
    }
    const globals: Record<string, unknown> = {
      true: true, false: false, none: null, True: true, False: false, None: null,
      raise_exception: (message: unknown) => { throw new TemplateError(String(message)); },
      range, strftime_now: strftimeNow, documents: null,
      bos_token: tokens.bos ?? '', eos_token: tokens.eos ?? '',
    };
    for (const [name, value] of Object.entries(globals)) this.#globals.set(name, value);
    this.capabilities = probe((context) => this.render(context), this.#renderPlain());
  }

  /** The prompt text. Throws TemplateError with the template's own words where it has some. */
  render(context: TemplateContext): string {
    const environment = new Environment(this.#globals);
    environment.set('messages', context.messages);
    environment.set('add_generation_prompt', context.addGenerationPrompt);
    environment.set('enable_thinking', context.enableThinking);
    environment.setVariable('tools', this.#toolsValue(context.tools));
    try {
      return new TemplateInterpreter(environment, RENDER_TIMEOUT_MS).text(this.#program);
    } catch (error) {
      if (error instanceof TemplateError) throw error;
      const timedOut = error instanceof RenderTimeout;
      throw new TemplateError(timedOut ? `chat template ran longer than ${RENDER_TIMEOUT_MS} ms` : messageOf(error), timedOut);
    }
  }

  #toolsValue(tools: TemplateTool[] | null): Value {
    if (tools === null) return valueOf(this.#noTools);
    let value = this.#tools.get(tools);
    if (value === undefined) this.#tools.set(tools, (value = valueOf(tools)));
    return value;
  }

  /** The least a template must do. */
  #renderPlain(): string {
    const plain = (): string => this.render({ messages: [{ role: 'user', content: 'probe-one' }], tools: null, addGenerationPrompt: true, enableThinking: false });
    let text: string;
    try {
      text = plain();
    } catch (error) {
      try {
        if (error instanceof TemplateError && error.timedOut) throw error;
        this.#noTools = [];
        text = plain();
      } catch {
        throw new TemplateError(`chat template cannot render one user message: ${messageOf(error)}`);
      }
    }
    if (!text.includes('probe-one')) throw new TemplateError('chat template drops the user message');
    return text;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
