// POST /v1/decisions answers questions about an input with probabilities of the allowed answers, in OpenAI's format.
// Event-loop thread only.
//
//   parse ─► model ─► content ─► admit ─► run ─► response
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { PreparedDecisions } from '../../generation/provider.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { admit, findModel, withAdmitted, type GenerationDeps, type Prepare } from '../admit.js';
import { annotateEndUser, annotateModel, callerOf, type Caller } from '../caller.js';
import { GenerationRun } from '../generation-run.js';
import { nameIgnored } from '../ignored.js';
import { decisionBody, responseBytes } from './encode.js';
import { parseDecisions, validateDecisionsInSlices, type AskedDecisions } from './parse.js';

const PATH = '/v1/decisions';

export interface DecisionDeps extends GenerationDeps {
  sealer: Sealer;
}

export function decisionsRoute(deps: DecisionDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    validateInSlices: validateDecisionsInSlices,
    handler: (exchange) => run(deps, exchange, read(deps, exchange)),
  };
}

interface DecisionCall {
  readonly caller: Caller;
  readonly model: ServedModel;
  readonly asked: AskedDecisions;
}

/** Parses the request. A separate function, so that the body can be garbage-collected while the request runs. */
function read(deps: DecisionDeps, exchange: Exchange): DecisionCall {
  annotateModel(exchange, exchange.body);
  const parsed = parseDecisions(exchange.body);
  const caller = callerOf(exchange, PATH, 'chat');
  const model = findModel(deps, caller, parsed.model);
  const asked = parsed.content({
    models: [model.asked, model.name],
    organizationId: exchange.identity.organizationId,
    sealer: deps.sealer,
  });
  nameIgnored({ parameters: asked.ignored }, exchange);
  annotateEndUser(exchange, asked.endUser);
  exchange.annotate({ questions: asked.questions.length });
  return { caller, model, asked };
}

async function run(deps: GenerationDeps, exchange: Exchange, { caller, model, asked }: DecisionCall): Promise<void> {
  const { decisions, questions } = asked;
  const result: { prepared?: PreparedDecisions } = {};
  const prepare: Prepare = async (provider, request, context) => {
    if (provider.decider === undefined)
      throw apiError(
        'unsupported_feature',
        'Decision questions are not available for upstream models, because upstreams do not return the probabilities of all allowed answers.',
        'model',
      );
    return (result.prepared = await provider.decider.prepare({ ...decisions, request }, context));
  };
  const admitted = await admit(deps, caller, model, decisions.request, prepare);
  const { prepared } = result;
  if (admitted === null || prepared === undefined) return;
  withAdmitted(admitted, () => {
    const generation = new GenerationRun(
      admitted,
      {
        event: () => undefined,
        failed: (error) => exchange.fail(error),
        complete: (usage) =>
          exchange.jsonEnqueued(
            responseBytes(questions),
            200,
            decisionBody(model.asked, questions, prepared.probabilities(), usage),
          ),
      },
      false,
    );
    exchange.onAborted(() => generation.cancel());
    generation.start();
  });
}
