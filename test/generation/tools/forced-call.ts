// Forces an untrained model to call tools, in every syntax.
import type { NativeEngine } from '../../../src/engine/addon-types.js';
import type { Engine } from '../../../src/engine/engine.js';
import type { EngineEvent, FinishedEvent, TextEvent } from '../../../src/engine/events.js';
import { ChatTemplate } from '../../../src/generation/local/template/chat-template.js';
import { compileGrammars } from '../../../src/generation/local/grammars.js';
import { callableTools, callOptions } from '../../../src/generation/local/tools/call-options.js';
import { ChoiceEvents } from '../../../src/generation/local/tools/choice-events.js';
import { findDialect } from '../../../src/generation/local/tools/dialect.js';
import type { ToolSyntax } from '../../../src/generation/local/tools/syntax.js';
import type { GenerationEvent, ToolDefinition } from '../../../src/generation/types.js';
import { plainText, promptOf, submitOptions } from '../../addon/starter.js';
import { templates } from './family-templates.js';

export const syntaxes = Object.entries(templates).map(([family, source]): [string, ToolSyntax] => [
  family,
  findDialect(new ChatTemplate(source, { bos: null, eos: null }), () => false).syntax,
]);

export interface Outcome {
  calls: { name: string; json: string; complete: boolean | null }[];
  text: string;
  reason: string;
}

export async function forcedCall(
  native: NativeEngine,
  engine: Engine,
  syntax: ToolSyntax,
  {
    tools,
    seed,
    parallel,
    unwanted = null,
    maxTokens = 350,
  }: {
    tools: readonly ToolDefinition[];
    seed: bigint;
    parallel: boolean;
    unwanted?: string | null;
    maxTokens?: number;
  },
): Promise<Outcome> {
  const request = { tools, toolChoice: { mode: 'required' as const, allowed: null }, parallelToolCalls: parallel };
  const { calls: grammars } = await compileGrammars(
    engine,
    { format: { type: 'text' }, tools },
    syntax,
    { whiteSpace: 'compact', callWhiteSpace: 'compact' },
    { organization: 1 },
  );
  const outcome: Outcome = { calls: [], text: '', reason: '' };
  const take = (event: GenerationEvent): void => {
    if (event.type === 'call_started') outcome.calls.push({ name: event.name, json: '', complete: null });
    else if (event.type === 'call_arguments') outcome.calls[event.index]!.json += event.text;
    else if (event.type === 'call_finished') outcome.calls[event.index]!.complete = event.complete;
    else if (event.type === 'text') outcome.text += event.text;
    else if (event.type === 'finished') outcome.reason = event.reason;
  };
  await new Promise<void>((resolve, reject) => {
    const choice = new ChoiceEvents(0, { syntax, tools: callableTools(request), parallel, required: true }, take, () =>
      running.finish(0),
    );
    const running = engine.generate(
      submitOptions(promptOf(native, 'Do it.'), {
        calls: callOptions(request, syntax, grammars),
        maxTokens,
        temperature: 1.3,
        seed,
        ignoreEos: false,
        logitBias:
          unwanted === null
            ? []
            : [...native.tokenize(unwanted, plainText)].slice(0, 1).map((token) => ({ token, bias: -12 })),
      }),
      (event: EngineEvent) => {
        if (event.type === 'text') choice.text(event as TextEvent, null);
        else if (event.type === 'failed') reject(new Error(event.message));
        else if (event.type === 'finished') {
          choice.finished(event as FinishedEvent, null);
          resolve();
        }
      },
    );
  });
  return outcome;
}
