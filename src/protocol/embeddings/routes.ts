// POST /v1/embeddings: vectors of texts, in OpenAI's format. Event-loop thread only.
//
//   parse ─► model ─► content ─► run.ts ─► response
import type { Exchange, Route } from '../../http/exchange.js';
import { findModel, type GenerationDeps } from '../admit.js';
import { annotateEndUser, annotateModel, callerOf } from '../caller.js';
import { nameIgnored } from '../ignored.js';
import { runPooling, type PoolingAnswer, type PoolingCall } from '../pooling/run.js';
import { vectorBytes, vectorText, writeVectors, type VectorEncoding } from '../pooling/vectors.js';
import { parseEmbeddings } from './parse.js';

const PATH = '/v1/embeddings';

export function embeddingsRoute(deps: GenerationDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    handler: (exchange) => runPooling(deps, exchange, read(deps, exchange)),
  };
}

/** Parses the request. A separate function, so that the body can be garbage-collected while the request runs. */
function read(deps: GenerationDeps, exchange: Exchange): PoolingCall {
  annotateModel(exchange, exchange.body);
  const parsed = parseEmbeddings(exchange.body);
  const caller = callerOf(exchange, PATH, 'chat');
  const model = findModel(deps, caller, parsed.model);
  const { request, encoding, endUser, ignored } = parsed.content();
  nameIgnored({ parameters: ignored }, exchange);
  annotateEndUser(exchange, endUser);
  exchange.annotate({ inputs: request.inputs.length });
  return {
    caller,
    model,
    request,
    responseBytes: (inputs, width) => vectorBytes(encoding, inputs * width),
    send: (answer) => send(exchange, model.asked, encoding, answer),
  };
}

async function send(
  exchange: Exchange,
  model: string,
  encoding: VectorEncoding,
  { results, usage: { promptTokens } }: PoolingAnswer,
): Promise<void> {
  const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
  const entry = (vector: Float32Array, index: number): string =>
    `{"object":"embedding","index":${index},"embedding":${vectorText(vector, encoding)}}`;
  const text = await writeVectors(exchange, results, entry, {
    before: '{"object":"list","data":[',
    after: `],"model":${JSON.stringify(model)},"usage":${JSON.stringify(usage)}}`,
  });
  exchange.json(200, text);
}
