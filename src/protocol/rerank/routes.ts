// POST /v1/rerank, /v2/rerank and /rerank rank documents by their relevance to a query, in the format that Cohere and
// Jina share. POST /v1/score and /score return the relevance of pairs of texts, in vLLM's format. Event-loop thread
// only.
//
//   parse ─► model ─► content ─► run.ts ─► response
import type { Exchange, Route } from '../../http/exchange.js';
import { newRankingId } from '../../shared/ids.js';
import { findModel, type GenerationDeps } from '../admit.js';
import { annotateEndUser, annotateModel, callerOf } from '../caller.js';
import { nameIgnored } from '../ignored.js';
import { runPooling, type PoolingAnswer, type PoolingCall } from '../pooling/run.js';
import { parseRerank, parseScore, type Parsed, type RankingRequest, type RerankRequest } from './parse.js';

/** Requests to any of an endpoint's paths are counted under this path. */
const RERANK = '/v1/rerank',
  SCORE = '/v1/score';

/** Estimated size of one result without its document, in bytes. */
const RESULT_BYTES = 64;

export function rerankRoutes(deps: GenerationDeps): Route[] {
  return [
    ...[RERANK, '/v2/rerank', '/rerank'].map((path) =>
      route(path, RERANK, (exchange) => rerank(deps, exchange, path === '/v2/rerank' ? '2' : '1')),
    ),
    ...[SCORE, '/score'].map((path) => route(path, SCORE, (exchange) => score(deps, exchange))),
  ];
}

function route(path: string, countedAs: string, call: (exchange: Exchange) => Promise<void>): Route {
  return {
    method: 'POST',
    path,
    scope: 'inference',
    checksScope: true,
    generates: true,
    ...(path === countedAs ? {} : { countedAs }),
    handler: call,
  };
}

/** `version`: the Cohere API version to report in the response. */
function rerank(deps: GenerationDeps, exchange: Exchange, version: string): Promise<void> {
  const { call, asked } = read(deps, exchange, RERANK, parseRerank);
  const { documents } = asked;
  const text = documents?.reduce((sum, { length }) => sum + length, 0) ?? 0;
  const bytes = text + asked.request.inputs.length * RESULT_BYTES;
  return runPooling(deps, exchange, {
    ...call,
    responseBytes: () => 0, // jsonEnqueued() reserves the memory
    send: (answer) => exchange.jsonEnqueued(bytes, 200, rankingAnswer(call.model.asked, version, asked, answer)),
  });
}

function score(deps: GenerationDeps, exchange: Exchange): Promise<void> {
  const { call } = read(deps, exchange, SCORE, parseScore);
  return runPooling(deps, exchange, {
    ...call,
    responseBytes: (inputs) => inputs * RESULT_BYTES,
    send: (answer) => sendScores(exchange, call.model.asked, answer),
  });
}

/** Parses the request. A separate function, so that the body can be garbage-collected while the request runs. */
function read<T extends RankingRequest>(
  deps: GenerationDeps,
  exchange: Exchange,
  endpoint: string,
  parse: (body: unknown) => Parsed<T>,
): { call: Pick<PoolingCall, 'caller' | 'model' | 'request'>; asked: T } {
  annotateModel(exchange, exchange.body);
  const parsed = parse(exchange.body);
  const caller = callerOf(exchange, endpoint, 'chat');
  const model = findModel(deps, caller, parsed.model);
  const asked = parsed.content();
  const { request, endUser, ignored } = asked;
  nameIgnored({ parameters: ignored }, exchange);
  annotateEndUser(exchange, endUser);
  exchange.annotate({ inputs: request.inputs.length });
  return { call: { caller, model, request }, asked };
}

function rankingAnswer(
  model: string,
  version: string,
  { documents, topN }: RerankRequest,
  { results, usage: { promptTokens } }: PoolingAnswer,
): object {
  const ranked = results
    .map(([relevance], index) => ({ index, relevance_score: relevance as number }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, topN)
    .map((result) =>
      documents === null ? result : { ...result, document: { text: documents[result.index] as string } },
    );
  return {
    id: newRankingId('rerank'),
    object: 'list',
    model,
    results: ranked,
    meta: { api_version: { version }, tokens: { input_tokens: promptTokens, output_tokens: 0 } },
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  };
}

function sendScores(exchange: Exchange, model: string, { results, usage: { promptTokens } }: PoolingAnswer): void {
  exchange.json(200, {
    id: newRankingId('score'),
    object: 'list',
    created: Math.floor(Date.now() / 1000),
    model,
    data: results.map(([relevance], index) => ({ index, object: 'score', score: relevance })),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  });
}
