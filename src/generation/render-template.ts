// Renders a chat template on its own, without a model, to compare the result with Jinja2.
import { isTemplateFunction } from './local/template/globals.js';
import { parseJson } from './local/template/json.js';
import { RenderBudget, TEMPLATE_LIMITS, TemplateError } from './local/template/limits.js';
import { Program } from './local/template/program.js';
import { Run } from './local/template/run.js';
import { Dict, TemplateFault, type Value } from './local/template/values.js';

export { isTemplateFunction };

export type Rendered = { readonly text: string } | { readonly error: string };

/**
 * Returns a function that renders the template for a context: a JSON object with its variables. `now` in a context is
 * not a variable, but the local time for strftime_now(). If the template does not parse, every context yields that
 * error.
 */
export function templateRenderer(source: string): (context: string) => Rendered {
  try {
    const program = new Program(source);
    return (context) => {
      try {
        return render(program, context);
      } catch (error) {
        return { error: messageOf(error) };
      }
    };
  } catch (error) {
    const failed = { error: messageOf(error) };
    return () => failed;
  }
}

function render(program: Program, json: string): Rendered {
  const context = parseJson(json);
  if (!(context instanceof Dict)) return { error: 'the context is not a JSON object' };
  const now = context.get('now');
  const date = typeof now === 'string' ? new Date(now) : new Date();
  if (Number.isNaN(date.getTime())) return { error: '"now" is not a local time such as 2026-03-09T14:05:07' };
  const variables = [...context.entries()].filter(([name]) => name !== 'now') as [string, Value][];
  const run = new Run(new RenderBudget(TEMPLATE_LIMITS.mostSteps), () => date);
  return { text: program.render(run, [['documents', null], ...variables]) };
}

function messageOf(error: unknown): string {
  if (error instanceof RangeError) return 'it is nested too deeply or recurses endlessly';
  if (error instanceof TemplateFault || error instanceof TemplateError) return error.message;
  throw error;
}
