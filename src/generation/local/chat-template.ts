// Renders a model's chat template (Jinja, from the GGUF file) within limits (template-limits.ts) and without access to
// anything but its input. One instance per loaded model; event-loop thread only.
import type { TemplateContext, TemplateTool } from './template-context.js';
import { TemplateInterpreter } from './template-interpreter.js';
import { RenderBudget, stepsFor, TEMPLATE_LIMITS, TemplateError } from './template-limits.js';
import { probe, type TemplateCapabilities } from './template-probe.js';
import { parseTemplate, type Program } from './template-syntax.js';
import { Environment, valueOf, type Value } from './template-values.js';

/** The default for files without a template: ChatML, the most common convention. */
export const CHATML_TEMPLATE =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}' +
  '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

/** Arguments may have any type, because the template supplies them. */
function range(start: unknown, stop?: unknown, step: unknown = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  if (typeof from !== 'number' || typeof to !== 'number' || typeof step !== 'number')
    throw new TemplateError('range(): arguments must be numbers');
  if (!Number.isInteger(step) || step === 0) throw new TemplateError('range(): step must be a non-zero integer');
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!(count <= TEMPLATE_LIMITS.range)) throw new TemplateError(`range(): more than ${TEMPLATE_LIMITS.range} numbers`);
  return Array.from({ length: count }, (_, i) => from + i * step);
}

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const MAX_TIME_FORMAT = 256;

function strftimeNow(format: unknown): string {
  if (typeof format !== 'string' || format.length > MAX_TIME_FORMAT)
    throw new TemplateError(`strftime_now(): the argument must be a string of at most ${MAX_TIME_FORMAT} characters`);
  const now = new Date();
  const two = (n: number) => String(n).padStart(2, '0');
  const month = MONTHS[now.getMonth()] as string;
  const fields: Record<string, () => string> = {
    Y: () => String(now.getFullYear()),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    B: () => month,
    b: () => month.slice(0, 3),
    H: () => two(now.getHours()),
    M: () => two(now.getMinutes()),
    '%': () => '%',
  };
  return format.replace(/%(.)/g, (whole, letter: string) => fields[letter]?.() ?? whole);
}

export class ChatTemplate {
  readonly capabilities: TemplateCapabilities;
  readonly #program: Program;
  readonly #globals = new Environment(); // shared by all renders
  readonly #effortSwitches: boolean; // whether thinking is switched off through the effort, as in Hy3's template
  readonly #trials: RenderBudget; // for all trial renders while the model is loaded
  readonly #tools = new WeakMap<TemplateTool[], Value>(); // as template values, cached because the same tools recur
  /** How the template represents "no tools". Some templates iterate over tools without checking that there are any. */
  #noTools: [] | null = null;

  /** Throws TemplateError if the source does not parse or cannot render one plain user message. */
  constructor(source: string, tokens: { bos: string | null; eos: string | null }) {
    const { characters } = TEMPLATE_LIMITS;
    if (source.length > characters) throw new TemplateError(`chat template is longer than ${characters} characters`);
    try {
      this.#program = parseTemplate(source);
    } catch (error) {
      // If a template ends within a tag, the parser throws a TypeError.
      throw new TemplateError(
        `chat template does not parse: ${error instanceof TypeError ? 'unexpected end or malformed tag' : reasonOf(error)}`,
      );
    }
    this.#effortSwitches = source.includes('reasoning_effort') && /['"]no_think['"]/.test(source);
    const globals: Record<string, unknown> = {
      true: true,
      false: false,
      none: null,
      True: true,
      False: false,
      None: null,
      raise_exception: (message: unknown) => {
        throw new TemplateError(typeof message === 'string' ? message : 'chat template raises an exception');
      },
      range,
      strftime_now: strftimeNow,
      documents: null,
      bos_token: tokens.bos ?? '',
      eos_token: tokens.eos ?? '',
    };
    for (const [name, value] of Object.entries(globals)) this.#globals.set(name, value);
    this.#trials = new RenderBudget();
    this.capabilities = probe((context) => this.try(context), this.#renderPlain());
  }

  /** Returns the prompt text. Throws TemplateError, with the template's own message if it raised one. */
  render(context: TemplateContext, budget = new RenderBudget(TEMPLATE_LIMITS.steps, () => stepsFor(context))): string {
    const environment = new Environment(this.#globals);
    environment.set('messages', context.messages);
    environment.set('add_generation_prompt', context.addGenerationPrompt);
    environment.set('enable_thinking', context.enableThinking);
    if (this.#effortSwitches) environment.set('reasoning_effort', context.enableThinking ? 'high' : 'no_think');
    // the same setting for MiniMax M3
    environment.set('thinking_mode', context.enableThinking ? 'enabled' : 'disabled');
    environment.setVariable('tools', this.#toolsValue(context.tools));
    try {
      return new TemplateInterpreter(environment, budget).text(this.#program);
    } catch (error) {
      if (error instanceof TemplateError) throw error;
      throw new TemplateError(reasonOf(error));
    }
  }

  /** Like render(), for artificial conversations that probe the template's behavior. */
  try(context: TemplateContext): string {
    return this.render(context, this.#trials);
  }

  #toolsValue(tools: TemplateTool[] | null): Value {
    if (tools === null) return valueOf(this.#noTools);
    let value = this.#tools.get(tools);
    if (value === undefined) this.#tools.set(tools, (value = valueOf(tools)));
    return value;
  }

  /** Checks the minimum that a template must do. */
  #renderPlain(): string {
    const plain = (): string =>
      this.try({
        messages: [{ role: 'user', content: 'probe-one' }],
        tools: null,
        addGenerationPrompt: true,
        enableThinking: false,
      });
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

/** Template recursion is bounded only by the call stack. */
function reasonOf(error: unknown): string {
  if (error instanceof RangeError && error.message.includes('call stack'))
    return 'it is nested too deeply or recurses endlessly';
  // The message of a TypeError describes the interpreter, not the template.
  if (error instanceof TypeError) return 'it uses an operation that the value does not support';
  return error instanceof Error ? error.message : String(error);
}
