// Runs a pooling request after the model lookup: admits it, waits for the results, and passes them to the API format.
// Event-loop thread only.
import type { PoolingRequest } from '../../generation/pooling.js';
import type { PreparedPooling } from '../../generation/provider.js';
import { poolerFor } from '../../generation/pooling-errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { Exchange } from '../../http/exchange.js';
import { admitPrepared, withAdmitted, type GenerationDeps } from '../admit.js';
import type { Caller } from '../caller.js';
import { GenerationRun } from '../generation-run.js';
import { headerPaths } from '../ignored.js';
import type { Usage } from '../usage.js';
import { asGeneration } from './request.js';

export interface PoolingAnswer {
  /** One result per input, in the order of the inputs. */
  readonly results: readonly Float32Array[];
  readonly usage: Usage;
  /** Time from the arrival of the request until its admission, in ms. Includes loading the model. */
  readonly loadMs: number;
}

export interface PoolingCall {
  readonly caller: Caller;
  readonly model: ServedModel;
  readonly request: PoolingRequest;
  /**
   * Returns the response's size in bytes. This much memory is reserved before the request runs. `width`: number of
   * values per result.
   */
  responseBytes(inputs: number, width: number): number;
  /** Sends the response to the client. */
  send(answer: PoolingAnswer): Promise<void> | void;
}

/** Throws ApiError if the request is rejected before it runs. */
export async function runPooling(deps: GenerationDeps, exchange: Exchange, call: PoolingCall): Promise<void> {
  const { caller, model, request } = call;
  const { task, inputs } = request;
  const prepared: { pooling?: PreparedPooling } = {};
  const admitted = await admitPrepared(
    deps,
    caller,
    model,
    asGeneration(model.asked, request, caller.identity.keepsText === true),
    async (provider, context) =>
      (prepared.pooling = await poolerFor(provider, model.asked, task).prepare(request, context)),
  );
  const { pooling } = prepared;
  if (admitted === null || pooling === undefined) return;
  const loadMs = performance.now() - caller.receivedAt;
  withAdmitted(admitted, () => {
    const { truncated, width } = pooling;
    if (truncated.length > 0) caller.setHeader('x-truncated-inputs', headerPaths(truncated));
    if (width !== null) exchange.reserve(call.responseBytes(inputs.length, width));
    const run = new GenerationRun(
      admitted,
      {
        event: () => undefined,
        failed: (error) => exchange.fail(error),
        complete: (usage) => {
          const sent = async (): Promise<void> => call.send({ results: pooling.results(), usage, loadMs });
          void sent().catch((error: unknown) => exchange.fail(error));
        },
      },
      false,
    );
    exchange.onAborted(() => run.cancel());
    run.start();
  });
}
