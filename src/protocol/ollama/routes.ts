// POST /api/chat and /api/generate: handles a request from the parsed body to the last line. Event-loop thread only.
//
//   parse ─► model ─► content ─► admit (admit.ts) ─► events ─► format guard ─► encoder ─► response
//   400      404/403  422        422, 429, 503                          500
import type { ServedModel } from '../../generation/served-models.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { admit, ensureLoaded, findModel, withAdmitted, type GenerationDeps } from '../admit.js';
import { callerOf, type Caller } from '../caller.js';
import { nameIgnored } from '../ignored.js';
import { answerOllama } from './answer.js';
import { embedRoutes } from './embed.js';
import { loadedAnswer, type OllamaKind } from './encode.js';
import { findTagged } from './model-name.js';
import { ollamaModelRoutes, type OllamaModels } from './model-routes.js';
import { parseOllamaChat, parseOllamaGenerate, validateOllamaInSlices, type OllamaGeneration } from './parse.js';
import { pullRoute, type OllamaPulls } from './pull.js';

const PATHS = { chat: '/api/chat', generate: '/api/generate' } as const;

export interface OllamaDeps {
  generation: GenerationDeps;
  models: OllamaModels;
  pulls: OllamaPulls;
  /** Null if every request needs an API key. */
  withoutKey: NonNullable<Route['withoutKey']> | null;
}

export function ollamaRoutes({ generation, models, pulls, withoutKey }: OllamaDeps): Route[] {
  const routes = [
    generationRoute(generation, 'chat'),
    generationRoute(generation, 'generate'),
    ...ollamaModelRoutes(models),
    pullRoute(pulls),
    ...embedRoutes(generation),
  ];
  return routes.map((route) => ({
    ...route,
    anyContentType: true,
    ...(withoutKey === null ? {} : { withoutKey }),
  }));
}

function generationRoute(deps: GenerationDeps, kind: OllamaKind): Route {
  return {
    method: 'POST',
    path: PATHS[kind],
    scope: 'inference',
    checksScope: true,
    generates: true,
    ...(kind === 'chat' ? { validateInSlices: validateOllamaInSlices } : {}),
    async handler(exchange) {
      const { caller, model, name, asked } = read(deps, exchange, kind);
      const { request, stream } = asked;
      if (request === null) {
        await ensureLoaded(model, caller).catch((error: unknown) => {
          if (!caller.aborted) throw error;
        });
        exchange.json(200, loadedAnswer(kind, name));
        return;
      }
      const admitted = await admit(deps, caller, model, request);
      if (admitted !== null) withAdmitted(admitted, () => answerOllama(exchange, { kind, stream, name }, admitted));
    },
  };
}

/** A separate function, so that the body can be garbage-collected during generation. */
function read(
  deps: GenerationDeps,
  exchange: Exchange,
  kind: OllamaKind,
): { caller: Caller; model: ServedModel; name: string; asked: OllamaGeneration } {
  const parsed = kind === 'chat' ? parseOllamaChat(exchange.body) : parseOllamaGenerate(exchange.body);
  const caller = callerOf(exchange, PATHS[kind], 'ollama');
  const model = findTagged(parsed.model, (name) => findModel(deps, caller, name));
  const asked = parsed.content();
  nameIgnored({ parameters: asked.ignored }, exchange);
  return { caller, model, name: parsed.model, asked };
}
