// Ollama's API: its routes, and which clients may use them without an API key.

import { KeylessOrganization } from '../../accounts/keyless-organization.js';
import type { Pulls } from '../../dashboard/admin/pulls.js';
import { modelBytes } from '../../engine/catalog.js';
import type { FileFacts } from '../../engine/file-facts.js';
import { availableMemory, totalMemory } from '../../engine/machine-memory.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { Route } from '../../http/exchange.js';
import { foreignTrait } from '../../http/local-client.js';
import type { GenerationDeps } from '../../protocol/admit.js';
import type { OllamaModelFacts } from '../../protocol/ollama/model-routes.js';
import { ollamaRoutes } from '../../protocol/ollama/routes.js';
import { apiError, StartError } from '../../shared/errors.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Authentication } from './authentication.js';
import type { DynamicModelsModule } from './dynamic-models.js';
import type { Engines } from './engines.js';
import type { Models } from './models.js';

/** Used in place of a key's ID for requests without a key. */
const KEYLESS_ID = 'ollama';

export interface OllamaContext extends AppContext {
  authentication: Authentication;
  engines: Engines;
  models: Models;
  dynamicModels: DynamicModelsModule;
  generation: { readonly deps: GenerationDeps };
  operator: { readonly pulls: Pulls; readonly fileFacts: FileFacts };
}

export function openOllama({
  config: { ollama },
  telemetry: { log },
  primary,
  authentication: { accounts, readers },
  engines: { pool },
  models: { models },
  dynamicModels: { served },
  generation,
  operator: { pulls, fileFacts },
}: OllamaContext): Promise<Module> {
  return openModule(async (undo) => {
    let withoutKey: Route['withoutKey'] | null = null;
    if (ollama.open) {
      if (ollama.organization === null)
        throw new StartError(
          'ollama.open requires ollama.organization: the name or ID of the organization to which requests without a key are attributed.',
        );
      if (primary) await accounts.organizations.ensureFirst();
      const keyless = await KeylessOrganization.open(accounts, ollama.organization, {
        setting: 'ollama.organization',
        keyId: KEYLESS_ID,
      });
      undo.add(() => keyless.close());
      if (primary)
        log.warn(
          { organization: keyless.id },
          "Ollama's API is open: programs on this machine need no API key under /api",
        );
      withoutKey = (exchange) => {
        const trait = foreignTrait(exchange);
        if (trait === null) return keyless.identity();
        throw apiError(
          'missing_api_key',
          `This request needs an API key, because ${trait}. Send it as "Authorization: Bearer <key>".`,
        );
      };
    }
    return {
      routes: ollamaRoutes({
        generation: generation.deps,
        models: {
          list: () => models.describe(),
          find: (asked, isShown) => models.describeOne(asked, isShown),
          facts: (name) => factsOf(pool, name),
          taskInFile: async (name) => {
            const model = pool.get(name)?.model;
            return model === undefined || model.upstream !== undefined ? null : (await fileFacts.of(model.file)).task;
          },
        },
        pulls: {
          check: async (exchange) => {
            if (exchange.identity.keyId === KEYLESS_ID)
              throw apiError('endpoint_not_allowed', "Only operators can download models. Send an operator's API key.");
            await readers.checkOperator(exchange);
          },
          isServed: (name) => pool.get(name) !== undefined,
          start: (model) => pulls.start(model),
          progress: (id) => pulls.get(id),
          stop: (id) => pulls.stop(id),
          serve: (name, model, ip) =>
            served.serve(
              { name, model },
              { fileFacts, memory: { total: totalMemory(), available: availableMemory() } },
              { type: 'operator_api', id: null, email: null, ip },
            ),
        },
        withoutKey: withoutKey ?? null,
      }),
    };
  });
}

function factsOf(pool: ModelPool, name: string): OllamaModelFacts {
  const pooled = pool.get(name);
  const info = pooled?.status.state === 'ready' ? pooled.status.engine.info : null;
  return {
    bytes:
      pooled === undefined || pooled.model.upstream !== undefined
        ? null
        : modelBytes(pooled.model.adapter?.path ?? pooled.model.file),
    architecture: info?.architecture ?? null,
    parameters: info?.parameters ?? null,
    quantization: info?.quantization ?? null,
    chatTemplate: info?.chatTemplate ?? null,
    isLoaded: pooled?.status.state === 'ready' || pooled?.status.state === 'elsewhere',
  };
}
