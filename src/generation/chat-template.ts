// Rendering a model's chat template (Jinja, from the GGUF) under a time limit and without reach beyond
// its own input, and finding out by probes what the template can express. One per loaded model; event-loop
// thread only.
import vm from 'node:vm';
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';

/** A message in the shape chat templates expect (the Hugging Face convention). */
export interface TemplateMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  name?: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
  tool_call_id?: string;
}

export interface TemplateContext {
  messages: TemplateMessage[];
  addGenerationPrompt: boolean;
  enableThinking: boolean;
}

/** What the template can express, found by rendering small conversations. */
export interface TemplateCapabilities {
  system: 'anywhere' | 'first' | 'none';   // where a system message may stand without being lost or refused
  alternation: boolean;                    // roles must alternate user / assistant
  thinkingSwitch: boolean;                 // enable_thinking changes the prompt
  argumentsAsText: boolean;                // tool-call arguments may be the text the model wrote, and come out as it
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

// vm's timeout is the one way to stop a synchronous loop from inside the process; the script only calls
// back into this module. Measured cost: 80 µs per render.
const limited = new vm.Script('globalThis[Symbol.for("monolith.render")]()');
const RENDER_SLOT = Symbol.for('monolith.render');

function withTimeout<T>(run: () => T): T {
  const slots = globalThis as unknown as Record<symbol, (() => T) | undefined>;
  slots[RENDER_SLOT] = run;
  try {
    return limited.runInThisContext({ timeout: RENDER_TIMEOUT_MS }) as T;
  } finally {
    slots[RENDER_SLOT] = undefined;
  }
}

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
  readonly #program: ReturnType<typeof parse>;
  readonly #tokens: { bos: string | null; eos: string | null };

  /** Throws TemplateError if the source does not parse or cannot render one plain user message. */
  constructor(source: string, tokens: { bos: string | null; eos: string | null }) {
    if (source.length > MAX_TEMPLATE_CHARS) throw new TemplateError(`chat template is longer than ${MAX_TEMPLATE_CHARS} characters`);
    this.#tokens = tokens;
    try {
      this.#program = withTimeout(() => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
    } catch (error) {
      throw new TemplateError(`chat template does not parse: ${messageOf(error)}`);
    }
    this.capabilities = this.#probe();
  }

  /** The prompt text. Throws TemplateError with the template's own words where it has some. */
  render(context: TemplateContext): string {
    const environment = new Environment();
    const variables: Record<string, unknown> = {
      true: true, false: false, none: null, True: true, False: false, None: null,
      raise_exception: (message: unknown) => { throw new TemplateError(String(message)); },
      range, strftime_now: strftimeNow,
      messages: context.messages,
      add_generation_prompt: context.addGenerationPrompt,
      enable_thinking: context.enableThinking,
      tools: null, documents: null,
      bos_token: this.#tokens.bos ?? '', eos_token: this.#tokens.eos ?? '',
    };
    for (const [name, value] of Object.entries(variables)) environment.set(name, value);
    try {
      const result = withTimeout(() => new Interpreter(environment).run(this.#program));
      return String((result as { value: unknown }).value);
    } catch (error) {
      if (error instanceof TemplateError) throw error;
      const timedOut = (error as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      throw new TemplateError(timedOut ? `chat template ran longer than ${RENDER_TIMEOUT_MS} ms` : messageOf(error), timedOut);
    }
  }

  /** The least a template must do. */
  #renderPlain(): string {
    const messages: TemplateMessage[] = [{ role: 'user', content: 'probe-one' }];
    try {
      return this.render({ messages, addGenerationPrompt: true, enableThinking: false });
    } catch (error) {
      throw new TemplateError(`chat template cannot render one user message: ${messageOf(error)}`);
    }
  }

  #probe(): TemplateCapabilities {
    const render = (messages: TemplateMessage[], enableThinking = false): string =>
      this.render({ messages, addGenerationPrompt: true, enableThinking });
    const keeps = (messages: TemplateMessage[]): boolean => {
      try {
        const text = render(messages);
        return messages.every((message) => text.includes(message.content));
      } catch {
        return false;
      }
    };
    const user = (content: string): TemplateMessage => ({ role: 'user', content });
    const system: TemplateMessage = { role: 'system', content: 'probe-system' };
    const assistant: TemplateMessage = { role: 'assistant', content: 'probe-answer' };

    const plain = this.#renderPlain();
    if (!plain.includes('probe-one')) throw new TemplateError('chat template drops the user message');
    const argumentText = '{"probe": 1.50}';
    const call: TemplateMessage = {
      ...assistant, tool_calls: [{ id: 'probe', type: 'function', function: { name: 'probe', arguments: argumentText } }],
    };
    const takesArgumentText = (): boolean => {
      try {
        return render([user('probe-one'), call]).includes(argumentText);
      } catch {
        return false;
      }
    };
    const first = keeps([system, user('probe-one')]);
    const later = keeps([user('probe-one'), assistant, system, user('probe-two')]);
    return {
      system: first && later ? 'anywhere' : first ? 'first' : 'none',
      alternation: !keeps([user('probe-one'), user('probe-two')]),
      thinkingSwitch: render([user('probe-one')], true) !== plain,
      argumentsAsText: takesArgumentText(),
    };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
